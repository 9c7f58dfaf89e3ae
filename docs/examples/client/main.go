// Client is a client under test: it asks for each URL in turn with a timeout of
// 1 s and prints what it got.
//
//	go run ./docs/examples/client [--cacert FILE] URL...
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	cacert := flag.String("cacert", "", "trust the authorities in this PEM file")
	flag.Parse()
	client := http.Client{Timeout: time.Second} // for the whole answer, body included
	if *cacert != "" {
		pem, err := os.ReadFile(*cacert)
		if err != nil {
			log.Fatal(err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			log.Fatalf("%s: no certificate", *cacert)
		}
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	}
	for _, url := range flag.Args() {
		began := time.Now()
		path, text, err := get(&client, url)
		if err != nil {
			text = err.Error()
		}
		fmt.Printf("%-16s %5.2f s  %s\n", path, time.Since(began).Seconds(), text)
	}
}

func get(client *http.Client, url string) (path, text string, err error) {
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return url, "", err
	}
	req.Header.Set("X-Key", "go")
	answer, err := client.Do(req)
	if err != nil {
		return req.URL.Path, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	text = fmt.Sprintf("%s, %d bytes", answer.Status[:3], len(body))
	if wait := answer.Header.Get("Retry-After"); wait != "" {
		text += ", Retry-After " + wait
	}
	return req.URL.Path, text, err
}
