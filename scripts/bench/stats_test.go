package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		about string
		v     []float64
		want  float64
	}{
		{"one value", []float64{3}, 3},
		{"an odd number of values in any order", []float64{9, 1, 5}, 5},
		{"an even number: the mean of the middle two", []float64{4, 1, 2, 100}, 3},
	}
	for _, tt := range tests {
		if got := median(tt.v); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.about, got, tt.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of nothing is not NaN")
	}
}

func TestMedianInterval(t *testing.T) {
	upTo := func(n int) (v []float64) {
		for i := range n {
			v = append(v, float64(i+1))
		}
		slices.Reverse(v)
		return v
	}
	// Ranks from tables of the sign test at 5 %, two-sided.
	tests := []struct {
		n         int
		low, high float64
		ok        bool
	}{
		{0, 0, 0, false}, {1, 0, 0, false}, {5, 0, 0, false},
		{6, 1, 6, true}, {7, 1, 7, true}, {8, 1, 8, true}, {9, 2, 8, true}, {10, 2, 9, true},
		{15, 4, 12, true}, {20, 6, 15, true}, {25, 8, 18, true},
	}
	for _, tt := range tests {
		low, high, ok := medianInterval(upTo(tt.n))
		if low != tt.low || high != tt.high || ok != tt.ok {
			t.Errorf("%d values: %v to %v, %v, want %v to %v, %v", tt.n, low, high, ok, tt.low, tt.high, tt.ok)
		}
	}
}

func TestParse(t *testing.T) {
	n, err := parseStatus("Active connections: 1 \nserver accepts handled requests\n 11 12 1234 \nReading: 0 Writing: 1 Waiting: 0 \n")
	if err != nil || n != 1234 {
		t.Errorf("stub_status: %d, %v", n, err)
	}
	if _, err := parseStatus("404"); err == nil {
		t.Error("a page without counts was accepted")
	}
	if got := parsePeak("Name:\tloadgen\nVmPeak:\t 1234 kB\nVmHWM:\t   8192 kB\nVmRSS:\t  100 kB\n"); got != 8<<20 {
		t.Errorf("VmHWM = %d", got)
	}
	calls := parseStrace(`% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.12    1.234567          12    100000           write
 30.00    0.600000          11     99000        10 recvmsg
  9.88    0.200000           5         7         1 futex
------ ----------- ----------- --------- --------- ----------------
100.00    2.034567          10    199007        11 total
`)
	if len(calls) != 3 || calls["write"] != 100000 || calls["recvmsg"] != 99000 || calls["futex"] != 7 {
		t.Errorf("strace: %v", calls)
	}
	log := "gc 1 @0.010s 2%: 0.01+0.5+0.003 ms clock\nloadgen: warming up\ngc 2 @1.5s 0%: 0.02 ms\nscvg: 0 MB\n"
	if n := countGCs(log); n != 2 {
		t.Errorf("%d collections, want 2", n)
	}
}

func TestChoose(t *testing.T) {
	all, err := choose(nil)
	if err != nil || len(all) != len(sections) {
		t.Errorf("no name: %d sections, %v", len(all), err)
	}
	two, err := choose([]string{"gc", "closed"})
	if err != nil || len(two) != 2 || two[0].name != "gc" {
		t.Errorf("two names: %v, %v", two, err)
	}
	if _, err := choose([]string{"open"}); err == nil {
		t.Error("an unknown section was accepted")
	}
}

func TestCommandIsPrintedAsTyped(t *testing.T) {
	tl := tools{dir: "/somewhere"}
	tests := []struct {
		c    command
		want string
	}{
		{tl.loadgenHedge("URL", 64, 4*time.Second), "loadgen run URL -d 4s -t 1 -c 64 --policy hedge=10s"},
		{tl.loadgenOpen("URL", 5000, time.Minute), "loadgen run URL -d 1m0s -t 1 -r 5000/s --arrivals constant"},
		{tl.vegetaOpen("URL", 5000, time.Second), "echo 'GET URL' | vegeta attack -rate 5000/s -duration 1s -output /dev/null"},
		{tl.wrk("URL", 64, time.Second), "wrk -t1 -c64 -d1s URL"},
	}
	for _, tt := range tests {
		if got := tt.c.String(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
