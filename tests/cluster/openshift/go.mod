module cluster/openshift

go 1.26.0

// Not tidied: nothing of it is compiled. The tests read the definitions that lie in it.
require (
	github.com/openshift/api v0.0.0-20240830023148-b7d0481c9094
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
