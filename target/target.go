package target

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"latencylab/clock"
	"latencylab/engine"
	"latencylab/service"
	"latencylab/workloads"
)

// DefaultIdle is how long a peer may owe the next bytes of a request, or the
// reading of an answer, before its connection is closed.
const DefaultIdle = 60 * time.Second

// fileSlack is the number of file descriptors that are kept free of
// connections: standard streams, listeners, pollers, the admin listener and its
// callers.
const fileSlack = 128

// Config says what to run and where. The zero Config is one replica that
// answers 200 at once, on a free port of 127.0.0.1.
type Config struct {
	// Service is what the replicas do. nil means the zero Spec.
	Service *service.Spec
	// Graph, if set, is several services that call each other; Service is then not
	// used. Each replica has a port of its own, in the order of the services.
	Graph *workloads.Graph
	// Seed keys every draw of the service.
	Seed uint64
	// Host is the address that replicas and baseline listen on. The zero Addr
	// means 127.0.0.1.
	Host netip.Addr
	// Hosts, if not empty, are the addresses of the replicas by number, in place of
	// Host; all have the same port.
	Hosts []netip.Addr
	// Port is that of the first replica; the others take the ports after it, and
	// the baseline the one after the last. 0 means free ports for all.
	Port int
	// AdminPort is the port of the admin listener on 127.0.0.1. 0 means a free one.
	AdminPort int
	// Threads is the number of loops that replicas are dealt over. 0 means 1;
	// more than there are replicas counts as one for each.
	Threads int
	// Baseline adds a listener that answers 200 with the service's body at once.
	Baseline bool
	// Front, if not DealNone, adds one address in front of the replicas of the first
	// service: each connection to it is dealt to one of them.
	Front Deal
	// FrontPort is its port. 0 means a free one.
	FrontPort int
	// MaxConnections bounds the open connections of all replicas; what comes
	// beyond is closed at once and counted. 0 means the file limit less some slack.
	MaxConnections int
	// TLS, if not nil, has replicas and baseline speak TLS 1.2 or 1.3. nil means
	// the zero TLS where Service says TLS, else plain HTTP.
	TLS *TLS
	// Spin is how long before an answer is due its loop polls instead of sleeping,
	// which takes a processor of its own where answers are due often. 0 means as
	// long as the loop's waits have lately ended late, within a tenth of all time;
	// below 0 not at all.
	Spin time.Duration
	// Idle is how long a connection may owe bytes before it is closed. 0 means
	// DefaultIdle. One that is kept alive between requests has ten times as long.
	Idle time.Duration
	// Upstream, if it has an address, is a real service that answers in place of the
	// target's own, where that would answer with 200.
	Upstream Upstream
}

// Target is a running set of replicas. Its methods may be called from any
// goroutine.
type Target struct {
	nodes     []*node
	calling   atomic.Int64 // requests of services that call on, of all loops
	servers   int          // replicas of all services
	edges     int          // calls of all services
	seed      uint64
	began     time.Time
	loops     []*loop
	replicas  []netip.AddrPort
	holds     atomic.Pointer[holding]
	tls       *tls.Config                // nil: plain HTTP
	badTLS    [service.Kinds]*tls.Config // by fault of TLS
	ca        *Authority                 // nil: none was generated
	runs      registry
	calls     calls
	following following
	live      live
	kept      int          // attempts that each loop keeps, a power of two
	open      atomic.Int64 // connections of all loops
	reading   sync.Mutex   // the ledger is read or reset as a whole
	changing  sync.Mutex   // one change at a time
	pages     pages
	upstream  *upstream // nil: none
	failed    chan error
}

// Start opens all listeners and begins to serve. On an error nothing is left
// open; it says which address could not be taken, or what is wrong with the
// service.
func Start(cfg Config) (*Target, error) {
	t := &Target{seed: cfg.Seed, began: time.Now(), kept: KeptAttempts, failed: make(chan error, 1)}
	g := cfg.Graph
	if g == nil {
		g = workloads.Single(cmp.Or(cfg.Service, &service.Spec{}))
	}
	if err := g.Validate(); err != nil {
		return nil, err
	}
	yaml, err := workloads.MarshalGraph(g)
	if err != nil {
		return nil, err
	}
	t.holds.Store(&holding{yaml: yaml, generation: 1, since: t.began.UTC()})
	t.setNodes(g)
	if err := cfg.complete(t.servers, t.edges > 0); err != nil {
		return nil, err
	}
	t.calls.window = KnownCalls
	if err := t.secure(&cfg); err != nil {
		return nil, err
	}
	t.runs.clear()
	if err := t.openAll(&cfg); err != nil {
		t.Stop()
		return nil, err
	}
	for _, l := range t.loops {
		l.running = true
		go l.run()
	}
	t.pages.serve() // a ledger asked for at once finds the loops running
	return t, nil
}

// complete replaces zero values by their defaults and checks the rest.
func (cfg *Config) complete(replicas int, calls bool) error {
	if !cfg.Host.IsValid() {
		cfg.Host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if n := len(cfg.Hosts); n > 0 && n != replicas {
		return fmt.Errorf("hosts has %d addresses, want %d: one for each replica", n, replicas)
	}
	if cfg.Idle <= 0 {
		cfg.Idle = DefaultIdle
	}
	if err := cfg.Upstream.complete(); err != nil {
		return err
	}
	cfg.Threads = min(max(cfg.Threads, 1), replicas)
	if cfg.AdminPort < 0 || cfg.AdminPort > math.MaxUint16 {
		return fmt.Errorf("admin-port = %d, want 0 to %d", cfg.AdminPort, math.MaxUint16)
	}
	if cfg.FrontPort < 0 || cfg.FrontPort > math.MaxUint16 {
		return fmt.Errorf("vip-port = %d, want 0 to %d", cfg.FrontPort, math.MaxUint16)
	}
	if cfg.Port < 0 || cfg.Port > math.MaxUint16 {
		return fmt.Errorf("port = %d, want 0 to %d", cfg.Port, math.MaxUint16)
	}
	if last := cfg.Port + replicas - 1; cfg.Port > 0 && last > math.MaxUint16 {
		return fmt.Errorf("port = %d with replicas = %d ends at %d, want at most %d", cfg.Port, replicas, last, math.MaxUint16)
	}
	limit, err := engine.FileLimit()
	if err != nil {
		return err
	}
	free := limit - fileSlack - replicas
	if calls { // a connection between two services is a file on both sides
		free /= 2
	}
	free -= cfg.Upstream.Connections
	if free < 1 {
		return fmt.Errorf("the file limit is %d, want at least %d for replicas = %d", limit, fileSlack+replicas+1, replicas)
	}
	if cfg.MaxConnections < 0 || cfg.MaxConnections > free {
		return fmt.Errorf("max-connections = %d, want 1 to %d: the file limit is %d", cfg.MaxConnections, free, limit)
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = free
	}
	return nil
}

// openAll makes loops and listeners; Stop closes what it has opened, whatever it
// returns.
func (t *Target) openAll(cfg *Config) error {
	for range cfg.Threads {
		l, err := newLoop(t, cfg)
		if err != nil {
			return err
		}
		t.loops = append(t.loops, l)
	}
	for i := range t.servers {
		fd, addr, err := listen(t.place(cfg, i))
		if err != nil {
			return err
		}
		t.replicas = append(t.replicas, addr)
		if err := t.loops[i%cfg.Threads].listen(i, fd); err != nil {
			return err
		}
	}
	if err := t.openFront(cfg); err != nil {
		return err
	}
	if err := t.connect(); err != nil {
		return err
	}
	if err := t.pages.open(t, cfg); err != nil {
		return err
	}
	if err := t.openUpstream(cfg); err != nil {
		return err
	}
	for _, l := range t.loops {
		for _, r := range l.replicas {
			r.wellKnown = t.wellKnown(r.index)
		}
	}
	return nil
}

// place is where replica i is to listen; those before it do already.
func (t *Target) place(cfg *Config, i int) netip.AddrPort {
	switch {
	case len(cfg.Hosts) > 0 && i > 0:
		return netip.AddrPortFrom(cfg.Hosts[i], t.replicas[0].Port())
	case len(cfg.Hosts) > 0:
		return netip.AddrPortFrom(cfg.Hosts[0], uint16(cfg.Port))
	case cfg.Port > 0:
		return netip.AddrPortFrom(cfg.Host, uint16(cfg.Port+i))
	}
	return netip.AddrPortFrom(cfg.Host, 0)
}

// listen is engine.Listen with the reason of a failure in words.
func listen(at netip.AddrPort) (int, netip.AddrPort, error) {
	fd, addr, err := engine.Listen(at)
	return fd, addr, inUse(at, err)
}

// inUse says in words that an address is taken.
func inUse(at netip.AddrPort, err error) error {
	switch {
	case !errors.Is(err, syscall.EADDRINUSE):
		return err
	case at.Port() == 0:
		return fmt.Errorf("listen on %v: no port is free", at.Addr())
	}
	return fmt.Errorf("listen on %v: the port is in use", at)
}

// Replicas returns the addresses of the replicas that requests enter at, by
// number: those of the first service.
func (t *Target) Replicas() []netip.AddrPort { return t.Services()[0].Replicas }

// Admin returns the address of the admin listener.
func (t *Target) Admin() netip.AddrPort { return t.pages.adminAddr }

// Baseline returns the address of the baseline listener; ok is false when
// there is none.
func (t *Target) Baseline() (addr netip.AddrPort, ok bool) {
	return t.pages.baseAddr, t.pages.baseAddr.IsValid()
}

// LedgerURL returns the address of the ledger page.
func (t *Target) LedgerURL() string { return "http://" + t.Admin().String() + "/ledger" }

// Failed receives an error when a loop has ended of itself, which only a broken
// system does. The replicas of that loop are then gone.
func (t *Target) Failed() <-chan error { return t.failed }

// Reset empties the ledger and starts the arrival numbers of callers without
// Latencylab-Call again at 0. Requests in flight are not counted when they end.
func (t *Target) Reset() {
	t.reading.Lock()
	defer t.reading.Unlock()
	t.runs.clear()
	for _, l := range t.loops {
		l.do(l.reset)
	}
	if t.upstream != nil {
		t.upstream.opened.Store(0)
	}
}

// Mark has the schedules of all replicas count from in from now on, as mark
// number n, or as the next one if n is 0: see service.Server.MarkAs.
func (t *Target) Mark(in time.Duration, n uint32) {
	t.reading.Lock()
	defer t.reading.Unlock()
	at := clock.Now().Add(in)
	for _, l := range t.loops {
		l.do(func() {
			for _, r := range l.replicas {
				if n == 0 {
					r.server.Mark(at)
				} else {
					r.server.MarkAs(at, n)
				}
			}
		})
	}
}

// Drain stops accepting connections, lets the requests in flight end for up to
// d, and stops. It reports whether all of them had ended.
func (t *Target) Drain(d time.Duration) bool {
	for _, l := range t.loops {
		l.do(l.drain)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	clean := true
	for _, l := range t.loops {
		if !clean {
			break
		}
		select {
		case <-l.done:
		case <-timer.C:
			clean = false
		}
	}
	t.Stop()
	return clean
}

// Stop closes every listener and connection at once and waits until the loops
// have ended. The ledger stays readable through Ledger. Further calls do nothing.
func (t *Target) Stop() {
	for _, l := range t.loops {
		l.stop()
	}
	if t.upstream != nil {
		t.upstream.transport.CloseIdleConnections()
	}
	t.pages.close()
}
