// Lateness is an HTTP server that tells how evenly requests reach it.
//
// It answers every request at once and keeps, of each, the instant at which the
// kernel received it (SO_TIMESTAMPNS), so that neither its own delays nor what a
// generator says of itself enter the figures. When it is stopped it prints one
// JSON object: how far the arrivals lie from the best-fitting perfect schedule.
//
//	go run ./scripts/lateness -rate 5000
//
// The first line of standard output is the URL to send requests to, the report
// follows on SIGTERM or SIGINT. GET /report answers with the report so far and
// begins anew; that request itself is not counted.
//
// It reads requests without a body, serves one loop on one thread, and runs on
// Linux only. On loopback the stamp is taken in the sender's own system call, so
// the figures say when requests left the generator; over a network they would
// hold the network's delays too.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "IPv4 `address` to listen on; port 0 takes a free one")
	rate := flag.Float64("rate", 0, "requests per second that the generator was asked for, to say whether it missed them; 0: not known")
	skip := flag.Duration("skip", time.Second, "time after the first request that is not judged")
	flag.Parse()
	if flag.NArg() > 0 || *rate < 0 || *skip < 0 {
		fmt.Fprintln(os.Stderr, "lateness: want no arguments, a rate and a skip of 0 or more")
		os.Exit(2)
	}

	var stop atomic.Bool
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		stop.Store(true)
	}()

	s, err := newServer(*listen, func(stamps []int64, unstamped int) []byte {
		b, _ := json.Marshal(judge(stamps, unstamped, *rate, *skip))
		return append(b, '\n')
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "lateness: %v\n", err)
		os.Exit(1)
	}
	fmt.Println(s.url())
	if err := s.serve(&stop); err != nil {
		fmt.Fprintf(os.Stderr, "lateness: %v\n", err)
		os.Exit(1)
	}
	os.Stdout.Write(s.report())
}
