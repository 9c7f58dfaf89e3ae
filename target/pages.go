package target

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"latencylab/http1"
	"latencylab/units"
)

// pages are the listeners that fasthttp serves: admin and baseline.
type pages struct {
	admin, base         fasthttp.Server
	adminLn, baseLn     net.Listener
	adminAddr, baseAddr netip.AddrPort
	serving             sync.WaitGroup
	streams             chan struct{} // holds one for each stream that is read
	quit                chan struct{} // closed when streams are to end
	quitting            sync.Once
	attempts            chan struct{} // holds one for each page of attempts that is being made
}

// Announcement is what a replica answers at http1.WellKnownPath. Such requests
// are neither counted nor delayed.
type Announcement struct {
	Latencylab string   `json:"latencylab"`    // "target/1"
	Ledger     string   `json:"ledger"`        // address of the ledger page
	Seed       uint64   `json:"seed"`          // keys the draws
	Replicas   []string `json:"replicas"`      // addresses by number
	Replica    int      `json:"replica"`       // number of the one that answers
	TLS        bool     `json:"tls,omitempty"` // the replicas speak TLS
}

// announced is the value of Announcement.Latencylab.
const announced = "target/1"

func (t *Target) wellKnown(replica int) []byte {
	a := Announcement{Latencylab: announced, Ledger: t.LedgerURL(), Seed: t.seed, Replica: replica, TLS: t.Secure()}
	for _, r := range t.addresses(t.nodeOf(replica)) {
		a.Replicas = append(a.Replicas, r.String())
	}
	b, err := json.Marshal(&a)
	if err != nil {
		panic("target: " + err.Error()) // strings and numbers always encode
	}
	return append(b, '\n')
}

// open takes the listeners; close gives them back, whatever open returns.
func (p *pages) open(t *Target, cfg *Config) (err error) {
	p.streams, p.quit = make(chan struct{}, streamReaders), make(chan struct{})
	p.attempts = make(chan struct{}, attemptPages)
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	p.adminLn, p.adminAddr, err = listenPage(netip.AddrPortFrom(loopback, uint16(cfg.AdminPort)))
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	p.admin = fasthttp.Server{
		Handler: newRouter(t.routes()).serve, Name: "latencylab", Logger: silence{}, Concurrency: 64,
		ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second,
		MaxRequestBodySize: maxService, CloseOnShutdown: true,
	}
	if !cfg.Baseline {
		return nil
	}
	port := 0
	if cfg.Port > 0 {
		if port = cfg.Port + t.servers; port > 65535 {
			return fmt.Errorf("baseline: the port after the last replica is %d, want at most 65535", port)
		}
	}
	p.baseLn, p.baseAddr, err = listenPage(netip.AddrPortFrom(cfg.Host, uint16(port)))
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	if t.tls != nil {
		p.baseLn = tls.NewListener(p.baseLn, t.tls)
	}
	whole := http1.AppendResponse(nil, http1.Answer{Status: 200, Body: t.nodes[0].Spec.Body})
	body := whole[len(whole)-t.nodes[0].Spec.Body:]
	p.base = fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) { ctx.Response.SetBodyRaw(body) },
		Name:    "latencylab-baseline", Logger: silence{}, Concurrency: cfg.MaxConnections,
		ReadTimeout: cfg.Idle, IdleTimeout: keptIdle * cfg.Idle, NoDefaultContentType: true, CloseOnShutdown: true,
	}
	return nil
}

func listenPage(at netip.AddrPort) (net.Listener, netip.AddrPort, error) {
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, netip.AddrPort{}, inUse(at, err)
	}
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	return ln, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()), nil
}

// serve begins to serve the listeners that open has taken.
func (p *pages) serve() {
	p.serving.Go(func() { p.admin.Serve(p.adminLn) })
	if p.baseLn != nil {
		p.serving.Go(func() { p.base.Serve(p.baseLn) })
	}
}

// close closes the listeners and waits a moment for callers.
func (p *pages) close() {
	if p.quit != nil {
		p.quitting.Do(func() { close(p.quit) })
	}
	for _, ln := range []net.Listener{p.adminLn, p.baseLn} {
		if ln != nil {
			ln.Close()
		}
	}
	p.serving.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	p.admin.ShutdownWithContext(ctx)
	p.base.ShutdownWithContext(ctx)
}

// serviceRoutes are the pages about what the replicas do.
func (t *Target) serviceRoutes() []route {
	return []route{
		{"GET", "/service", t.servicePage},
		{"PUT", "/service", t.replacePage},
		{"PATCH", "/service", t.replacePage},
		{"GET", "/healthz", healthPage},
		{"POST", "/mark", t.markPage},
	}
}

// ledgerRoutes are the pages about what was recorded.
func (t *Target) ledgerRoutes() []route {
	return []route{
		{"GET", "/ledger", t.ledgerPage},
		{"GET", "/attempts", t.attemptsPage},
		{"GET", "/stream", t.streamPage},
		{"GET", "/live", t.livePage},
		{"GET", "/metrics", t.metricsPage()},
		{"POST", "/reset", t.resetPage},
	}
}

func (t *Target) servicePage(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("application/yaml")
	ctx.Response.Header.Set("Latencylab-Generation", strconv.FormatUint(t.holds.Load().generation, 10))
	ctx.SetBody(t.holds.Load().yaml)
}

func healthPage(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString("ok\n")
}

func (t *Target) resetPage(ctx *fasthttp.RequestCtx) {
	t.Reset()
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}

func (t *Target) markPage(ctx *fasthttp.RequestCtx) {
	in, n, err := markArgs(ctx.QueryArgs())
	if err != nil {
		fail(ctx, fasthttp.StatusBadRequest, err.Error())
		return
	}
	t.Mark(in, n)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}

// markArgs reads the query of /mark: in is a duration, n a number; both may be
// left out.
func markArgs(args *fasthttp.Args) (in time.Duration, n uint32, err error) {
	if args.Has("in") {
		if in, err = units.ParseDuration(string(args.Peek("in"))); err != nil {
			return 0, 0, fmt.Errorf("in = %w", err)
		}
	}
	if args.Has("n") {
		text := string(args.Peek("n"))
		v, err := strconv.ParseUint(text, 10, 32)
		if err != nil || v == 0 {
			return 0, 0, fmt.Errorf("n = %q, want 1 to %d", text, uint32(math.MaxUint32))
		}
		n = uint32(v)
	}
	return in, n, nil
}

func (t *Target) ledgerPage(ctx *fasthttp.RequestCtx) {
	var l *Ledger
	if args := ctx.QueryArgs(); args.Has("run") {
		l = t.LedgerOf(string(args.Peek("run")))
	} else {
		l = t.Ledger()
	}
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		fail(ctx, fasthttp.StatusInternalServerError, err.Error())
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(b, '\n'))
}

// silence drops what fasthttp would log: broken connections of callers.
type silence struct{}

func (silence) Printf(string, ...any) {}
