package trial

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"latencylab/results"
)

// host describes the machine. method is how the engine waits; "" in virtual time.
func host(method string) results.Host {
	h := results.Host{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Procs: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		CPU: cpuModel(), Kernel: kernel(), Clock: results.Text{Value: method},
	}
	if method == "" {
		h.Clock.Reason = "virtual time does not wait"
	}
	return h
}

func kernel() results.Text {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return results.Text{Reason: err.Error()}
	}
	return results.Text{Value: unix.ByteSliceToString(u.Release[:])}
}

func cpuModel() results.Text {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return results.Text{Reason: "this system has no /proc/cpuinfo"}
	}
	for line := range bytes.Lines(b) {
		k, v, _ := strings.Cut(string(line), ":")
		if strings.TrimSpace(k) == "model name" {
			return results.Text{Value: strings.TrimSpace(v)}
		}
	}
	return results.Text{Reason: "/proc/cpuinfo names no model"}
}

// usage is what this process has used so far.
type usage struct {
	cpu time.Duration
	rss float64 // largest resident size in bytes
}

func readUsage() (u usage, ok bool) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return u, false
	}
	u.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	u.rss = float64(r.Maxrss)
	if runtime.GOOS == "linux" { // there in KiB (getrusage(2)), on macOS in bytes
		u.rss *= 1024
	}
	return u, true
}
