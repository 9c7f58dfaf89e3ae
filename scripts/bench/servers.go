package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// nginx is one nginx of our own, with its own directory and ports.
type nginx struct {
	cert string // of an HTTPS server: PEM file that callers trust
	cmd  *exec.Cmd
	dir  string
	urls []string // several ports: each has local ports of its own to be connected from
	stat string
}

// nginxPorts is the number of ports a server has. Runs take them in turn, so
// that connections of 10,000-connection runs that linger in TIME_WAIT do not
// use up the 28,000 local ports.
const nginxPorts = 4

const nginxConf = `daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
error_log stderr crit;
pid %[1]s/nginx.pid;
events { worker_connections 16384; multi_accept on; }
http {
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  server {
%[2]s%[4]s    location / { default_type text/plain; return 200 "Hello, world\n"; }
  }
  server {
    listen 127.0.0.1:%[3]d;
    location / { stub_status; }
  }
}
`

// nginxTLS allows one cipher suite, so that all callers work alike.
const nginxTLS = `    ssl_certificate %[1]s/cert.pem;
    ssl_certificate_key %[1]s/key.pem;
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
`

// startNginx starts one worker on the server's core that answers 13 bytes, over
// TLS if secure.
func startNginx(secure bool) (*nginx, error) {
	dir, err := os.MkdirTemp("", "bench-nginx-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(nginxPorts + 1)
	if err != nil {
		return nil, err
	}
	n := &nginx{dir: dir, stat: fmt.Sprintf("http://127.0.0.1:%d/", ports[nginxPorts])}
	var listen strings.Builder
	scheme, option, more := "http", "", ""
	if secure {
		scheme, option, more = "https", " ssl", fmt.Sprintf(nginxTLS, dir)
		if n.cert, err = writeCertificate(dir); err != nil {
			return nil, err
		}
	}
	for _, p := range ports[:nginxPorts] {
		fmt.Fprintf(&listen, "    listen 127.0.0.1:%d backlog=16384%s;\n", p, option)
		n.urls = append(n.urls, fmt.Sprintf("%s://127.0.0.1:%d/", scheme, p))
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, listen.String(), ports[nginxPorts], more), 0o644); err != nil {
		return nil, err
	}
	n.cmd = pinned(serverCore, command{args: []string{"nginx", "-p", dir, "-c", conf}})
	n.cmd.Stderr = os.Stderr
	if err := n.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start nginx: %w", err)
	}
	running.add(n.cmd.Process.Pid)
	for range 100 {
		if _, err = n.requests(); err == nil {
			return n, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	n.stop()
	return nil, fmt.Errorf("nginx does not answer: %w", err)
}

// writeCertificate writes cert.pem and key.pem for 127.0.0.1 into dir, and
// returns the former's path.
func writeCertificate(dir string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	cert := filepath.Join(dir, "cert.pem")
	err = os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
	}
	return cert, err
}

func (n *nginx) stop() {
	stop(n.cmd)
	os.RemoveAll(n.dir)
}

// url returns the port of run i.
func (n *nginx) url(i int) string { return n.urls[i%len(n.urls)] }

var statusCounts = regexp.MustCompile(`(?m)^ (\d+) (\d+) (\d+) ?$`)

// requests returns the requests that nginx has read so far, this one included.
func (n *nginx) requests() (uint64, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(n.stat)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	return parseStatus(string(b))
}

// parseStatus reads the third number of stub_status: accepts handled requests.
func parseStatus(page string) (uint64, error) {
	m := statusCounts.FindStringSubmatch(page)
	if m == nil {
		return 0, fmt.Errorf("stub_status page %q has no counts", page)
	}
	return strconv.ParseUint(m[3], 10, 64)
}

// nextPort is where freePorts looks next. It lies below the range that
// connections take their local ports from: vegeta behind its rate leaves tens
// of thousands of those in TIME_WAIT, and then none is free to listen on.
var nextPort = 20_000 + os.Getpid()%8000

// freePorts returns n ports of the loopback interface that were free just now.
func freePorts(n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := nextPort
		nextPort++
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer l.Close()
			ports = append(ports, port)
		} else if tries > 2000 {
			return nil, fmt.Errorf("no free port: %w", err)
		}
	}
	return ports, nil
}

// lateness is what scripts/lateness reports of one run.
type lateness struct {
	Requests     int     `json:"requests"`
	AchievedPerS float64 `json:"achieved_per_s"`
	Missed       bool    `json:"missed"`
	P50us        float64 `json:"p50_us"`
	P99us        float64 `json:"p99_us"`
	P999us       float64 `json:"p999_us"`
	Reason       string  `json:"reason"`
}

// measureLateness runs one generator against a fresh lateness server.
func (t tools) measureLateness(rate int, limit time.Duration, gen func(url string) command) (lateness, error) {
	ports, err := freePorts(1)
	if err != nil {
		return lateness{}, err
	}
	cmd := pinned(serverCore, command{args: []string{t.path("lateness"), "-rate", strconv.Itoa(rate), "-listen", fmt.Sprintf("127.0.0.1:%d", ports[0])}})
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return lateness{}, err
	}
	if err := cmd.Start(); err != nil {
		return lateness{}, fmt.Errorf("start lateness: %w", err)
	}
	running.add(cmd.Process.Pid)
	lines := bufio.NewReader(pipe)
	url, err := lines.ReadString('\n')
	if err == nil {
		_, err = run(gen(strings.TrimSpace(url)), limit)
	}
	// SIGTERM makes it report; the pipe must be read before the process is reaped.
	cmd.Process.Signal(os.Interrupt)
	report, readErr := io.ReadAll(lines)
	stop(cmd)
	if err != nil {
		return lateness{}, err
	}
	var l lateness
	if readErr != nil || json.Unmarshal(report, &l) != nil {
		return l, fmt.Errorf("lateness reported %q, %v", report, readErr)
	}
	return l, nil
}
