// Command tidewatch is the operator of the example bundle for tests: the command lists the objects of its API with the
// permissions that its bundle requests, and is ready once that succeeds. Flags select the faults of a bad version.
//
//	tidewatch [--list PATH] [--ready=false] [--crash]   the operator; its API is at PATH
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	log.SetFlags(0)
	if err := operate(); err != nil {
		log.Fatal(err)
	}
}

func operate() error {
	willing := flag.Bool("ready", true, "become ready")
	crash := flag.Bool("crash", false, "exit immediately with an error")
	path := flag.String("list", "/apis/tidewatch.example.com/v1/stations", "path to list")
	flag.Bool("leader-elect", false, "accepted and ignored: the operator has one replica")
	flag.Parse()
	if *crash {
		return errors.New("this version crashes")
	}

	var ready atomic.Bool
	go func() {
		for {
			err := list(*path)
			ready.Store(*willing && err == nil)
			if err != nil {
				log.Print(err)
			}
			time.Sleep(time.Second)
		}
	}()
	http.HandleFunc("/readyz", func(response http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(response, "not ready", http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	failed := make(chan error, 1)
	go func() { failed <- http.ListenAndServe(":8081", nil) }()

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	select {
	case err := <-failed:
		return err
	case <-signals:
		return nil
	}
}

// list requests a path of the API server with the token of the pod's ServiceAccount.
func list(path string) error {
	host := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	pem, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodGet, "https://"+host+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	client := http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}},
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return nil
}
