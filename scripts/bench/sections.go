package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// slack is how much longer than its own duration a generator may take.
const slack = 30 * time.Second

// sample is one run of one generator.
type sample struct {
	cpu      float64 // µs per request
	peak     float64 // MB (10^6 bytes)
	requests float64
}

// measure runs a generator once and counts its requests at nginx.
func measure(n *nginx, c command, limit time.Duration) (sample, error) {
	before, err := n.requests()
	if err != nil {
		return sample{}, err
	}
	u, err := run(c, limit)
	if err != nil {
		return sample{}, err
	}
	after, err := n.requests()
	if err != nil {
		return sample{}, err
	}
	count := float64(after - before - 1) // less the status request itself
	if count < 1 {
		return sample{}, fmt.Errorf("%s sent no request", c)
	}
	return sample{cpu: u.cpu.Seconds() * 1e6 / count, peak: float64(u.peak) / 1e6, requests: count}, nil
}

// compare runs the generators in turn, pairs times, and returns their samples
// by generator. gens[i](url) is generator i.
func (b *bench) compare(pairs int, d time.Duration, gens ...func(url string) command) ([][]sample, error) {
	n, err := startNginx(false)
	if err != nil {
		return nil, err
	}
	defer n.stop()
	return b.compareAt(n, pairs, d, gens...)
}

// compareAt is compare with a server of the caller's.
func (b *bench) compareAt(n *nginx, pairs int, d time.Duration, gens ...func(url string) command) ([][]sample, error) {
	for _, g := range gens {
		b.printf("command: %s\n", g("URL"))
	}
	all := make([][]sample, len(gens))
	for i := range pairs {
		for j, g := range gens {
			s, err := measure(n, g(n.url(i)), d+slack)
			if err != nil {
				return nil, err
			}
			all[j] = append(all[j], s)
		}
	}
	for j, g := range gens {
		b.printf("%-22s CPU per request %5.2f µs (median of %d), %7.0f requests/s, peak %5.1f MB\n", g("URL").name,
			median(column(all[j], cpuOf)), pairs, median(column(all[j], requestsOf))/d.Seconds(), slices.Max(column(all[j], peakOfSample)))
	}
	return all, nil
}

func cpuOf(s sample) float64        { return s.cpu }
func peakOfSample(s sample) float64 { return s.peak }
func requestsOf(s sample) float64   { return s.requests }

func column(s []sample, of func(sample) float64) []float64 {
	v := make([]float64, len(s))
	for i := range s {
		v[i] = of(s[i])
	}
	return v
}

// ratio prints the CPU ratios of the first generator to the second and holds
// their median against a bound.
func (b *bench) ratio(all [][]sample, what string, bound float64) {
	r := ratios(column(all[0], cpuOf), column(all[1], cpuOf))
	b.printf("ratios: %s\n", listOf(r, "%.3f"))
	b.printf("median ratio %.3f, %s\n", median(r), interval(r, "%.3f"))
	b.hold(median(r) <= bound, "%s: median ratio %.3f, at most %.2f", what, median(r), bound)
}

func (b *bench) closed() error {
	d := b.span(4*time.Second, time.Second)
	all, err := b.compare(b.count(15), d,
		func(url string) command { return b.tools.loadgenClosed(url, 64, d) },
		func(url string) command { return b.tools.wrk(url, 64, d) })
	if err == nil {
		b.ratio(all, "CPU per request against wrk, 64 connections", 0.95)
	}
	return err
}

func (b *bench) https() error {
	n, err := startNginx(true)
	if err != nil {
		return err
	}
	defer n.stop()
	d := b.span(4*time.Second, time.Second)
	all, err := b.compareAt(n, b.count(15), d,
		func(url string) command { return b.tools.loadgenClosed(url, 64, d, "--cacert", n.cert) },
		func(url string) command { return b.tools.wrk(url, 64, d) })
	if err == nil {
		b.ratio(all, "CPU per request over HTTPS against wrk, 64 connections kept alive", 0.85)
	}
	return err
}

func (b *bench) c10k() error {
	const conns = 10_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Cur < conns+200 {
		return fmt.Errorf("the file limit is %d, want %d or more for %d connections: ulimit -n", limit.Cur, conns+200, conns)
	}
	d := b.span(6*time.Second, 2*time.Second)
	all, err := b.compare(b.count(15), d,
		func(url string) command { return b.tools.loadgenClosed(url, conns, d) },
		func(url string) command { return b.tools.wrk(url, conns, d) })
	if err != nil {
		return err
	}
	b.ratio(all, "CPU per request against wrk, 10,000 connections", 0.90)
	peak := slices.Max(column(all[0], peakOfSample))
	b.hold(peak <= 24, "peak memory of loadgen with 10,000 connections: %.1f MB, at most 24", peak)
	return nil
}

func (b *bench) context() error {
	d := b.span(4*time.Second, time.Second)
	_, err := b.compare(b.count(5), d,
		func(url string) command { return b.tools.wrk(url, 64, d) },
		func(url string) command { return b.tools.bombardier(url, 64, d) },
		func(url string) command { return b.tools.vegetaClosed(url, 64, d) })
	return err
}

func (b *bench) hedge() error {
	d := b.span(4*time.Second, time.Second)
	all, err := b.compare(b.count(15), d,
		func(url string) command { return b.tools.loadgenHedge(url, 64, d) },
		func(url string) command { return b.tools.loadgenClosed(url, 64, d) })
	if err == nil {
		b.ratio(all, "CPU per request with a hedge armed against plain", 1.08)
	}
	return err
}

// lateRun is the lateness of all runs of one generator at one rate, in order. A
// run that left too few requests to judge has NaN, which is never printed.
type lateRun struct {
	p50, p99, p999, achieved []float64
	missed                   int
}

func (r *lateRun) add(l lateness) {
	if l.Reason != "" {
		l.P50us, l.P99us, l.P999us = math.NaN(), math.NaN(), math.NaN()
	}
	r.p50, r.p99, r.p999 = append(r.p50, l.P50us), append(r.p99, l.P99us), append(r.p999, l.P999us)
	r.achieved = append(r.achieved, l.AchievedPerS)
	if l.Missed || l.Reason != "" {
		r.missed++
	}
}

func (b *bench) lateness() error {
	d := b.span(6*time.Second, 3*time.Second)
	pairs := b.count(7)
	for _, rate := range []int{1000, 5000, 20_000} {
		gens := []func(url string) command{
			func(url string) command { return b.tools.loadgenOpen(url, rate, d) },
			func(url string) command { return b.tools.vegetaOpen(url, rate, d) },
		}
		runs := make([]lateRun, len(gens))
		for range pairs {
			for j, g := range gens {
				l, err := b.tools.measureLateness(rate, d+slack, g)
				if err != nil {
					return err
				}
				runs[j].add(l)
			}
		}
		b.printf("%d/s, %d pairs, the first second of each run skipped\n", rate, pairs)
		for j, g := range gens {
			r := &runs[j]
			c := g("URL")
			b.printf("  command: %s\n", c)
			b.printf("  %-8s |lateness| p50 %s, p99 %s, p99.9 %s µs (medians), achieved %.0f/s", c.name, medianText(r.p50), medianText(r.p99), medianText(r.p999), median(r.achieved))
			if r.missed > 0 {
				b.printf(", MISSED THE RATE in %d of %d runs: these figures are of another schedule", r.missed, pairs)
			}
			b.printf("\n           p99 of each run: %s\n", listOf(r.p99, "%.1f"))
		}
		b.judgeLateness(rate, &runs[0], &runs[1])
	}
	return nil
}

func (b *bench) judgeLateness(rate int, own, peer *lateRun) {
	b.hold(own.missed == 0, "loadgen keeps %d/s: missed in %d runs", rate, own.missed)
	b.hold(median(own.p50) <= 10, "lateness p50 at %d/s: %s µs, at most 10", rate, medianText(own.p50))
	if rate >= 20_000 {
		b.hold(median(own.p99) <= 150, "lateness p99 at %d/s: %s µs, at most 150", rate, medianText(own.p99))
		return
	}
	r := known(ratios(own.p99, peer.p99))
	b.printf("  p99 ratios: %s; %s\n", listOf(r, "%.4f"), interval(r, "%.4f"))
	b.hold(median(r) <= 0.1, "lateness p99 against vegeta at %d/s: median ratio %s, at most 0.1", rate, valueText(median(r), "%.4f"))
}

func (b *bench) gc() error {
	n, err := startNginx(false)
	if err != nil {
		return err
	}
	defer n.stop()
	d := b.span(30*time.Second, 3*time.Second)
	var counts []int
	for _, rate := range []int{1000, 20_000} {
		c := b.tools.loadgenOpen(n.url(0), rate, d)
		c.env = []string{"GODEBUG=gctrace=1"}
		u, err := run(c, d+slack)
		if err != nil {
			return err
		}
		counts = append(counts, countGCs(string(u.stderr)))
		shown := b.tools.loadgenOpen("URL", rate, d)
		shown.env = c.env
		b.printf("command: %s\n%d garbage collections in %s at %d/s\n", shown, counts[len(counts)-1], d, rate)
	}
	b.hold(counts[1] <= counts[0], "garbage collections in %s: %d at 1,000/s, %d at 20,000/s, no more than at 1,000/s", d, counts[0], counts[1])
	return nil
}

func (b *bench) strace() error {
	n, err := startNginx(false)
	if err != nil {
		return err
	}
	defer n.stop()
	dir, err := os.MkdirTemp("", "bench-strace-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := b.span(5*time.Second, 2*time.Second)
	file := filepath.Join(dir, "calls")
	traced := func(url, file string) command {
		c := b.tools.loadgenClosed(url, 64, d)
		c.args = append([]string{"strace", "-f", "-c", "-o", file}, c.args...)
		return c
	}
	s, err := measure(n, traced(n.url(0), file), d+slack)
	if err != nil {
		return err
	}
	table, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	calls := parseStrace(string(table))
	b.printf("command: %s\n%.0f requests\n%s", traced("URL", "FILE"), s.requests, table)
	per := func(name string) float64 { return float64(calls[name]) / s.requests }
	for _, name := range []string{"recvmsg", "write", "epoll_pwait2", "futex"} {
		b.printf("%-12s %.4f per request\n", name, per(name))
	}
	for _, name := range []string{"recvmsg", "write", "epoll_pwait2"} {
		b.hold(calls[name] > 0, "%s is used: %d calls", name, calls[name])
	}
	b.hold(per("futex") < 0.01, "futex: %.4f per request, under 0.01", per("futex"))
	return nil
}

func (b *bench) memory() error {
	n, err := startNginx(false)
	if err != nil {
		return err
	}
	defer n.stop()
	early, d := b.span(10*time.Second, time.Second), b.span(time.Minute, 4*time.Second)
	if b.long {
		early, d = 2*time.Minute, 20*time.Minute
	}
	const rate = 5000
	gen := func(url string) command { return b.tools.loadgenOpen(url, rate, d) }
	var first, last int64
	began := time.Now()
	u, err := runWatched(gen(n.url(0)), d+slack, func(peak int64) {
		switch at := time.Since(began); {
		case at <= early:
			first = peak
		case at <= d-500*time.Millisecond: // before it makes its report
			last = peak
		}
	})
	if err != nil {
		return err
	}
	b.printf("command: %s\n", gen("URL"))
	b.printf("peak memory after %s %.2f MB, after %s %.2f MB, with its report %.2f MB\n", early, float64(first)/1e6, d, float64(last)/1e6, float64(u.peak)/1e6)
	grown := float64(last-first) / 1e6
	claim := fmt.Sprintf("peak memory from %s to %s grows by %.2f MB, at most 1", early, d, grown)
	if !b.long {
		claim += " (short form; -long runs 20 minutes)"
	}
	b.hold(grown <= 1, "%s", claim)
	return nil
}
