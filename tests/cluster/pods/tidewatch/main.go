// Command tidewatch is the operator of the example bundle for tests: the command lists the objects of its API with the
// permissions that its bundle requests, and is ready once that succeeds. Flags select the faults of a bad version.
//
//	tidewatch [--list PATH] [--ready=false] [--crash]   the operator; its API is at PATH
//	tidewatch fetch URL                                 prints the names in the archive at a URL, requested as the
//	                                                    ServiceAccount of the pod, with the CA of CA_FILE
package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
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
	var err error
	if len(os.Args) == 3 && os.Args[1] == "fetch" {
		err = fetch(os.Args[2])
	} else {
		err = operate()
	}
	if err != nil {
		log.Fatal(err)
	}
}

func operate() error {
	willing := flag.Bool("ready", true, "become ready")
	crash := flag.Bool("crash", false, "end at once, with an error")
	path := flag.String("list", "/apis/tidewatch.example.com/v1/stations", "what to list")
	flag.Bool("leader-elect", false, "taken and ignored: there is one of us")
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

func list(path string) error {
	host := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	response, err := get("https://"+host+path, account+"ca.crt")
	if err != nil {
		return err
	}
	return response.Close()
}

func fetch(url string) error {
	body, err := get(url, os.Getenv("CA_FILE"))
	if err != nil {
		return err
	}
	defer body.Close()
	inflated, err := gzip.NewReader(body)
	if err != nil {
		return err
	}
	for archive := tar.NewReader(inflated); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(header.Name)
	}
}

// get sends a request with the token of the pod's ServiceAccount.
func get(url, authority string) (io.ReadCloser, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	client := http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}},
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return response.Body, nil
}
