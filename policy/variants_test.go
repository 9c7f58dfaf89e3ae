package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latencylab/clock"
	"latencylab/policy"
	"latencylab/workloads"
)

// TestVariants runs the scripts of testdata/variants, in which several calls of
// one client are under way. A script is a list of blocks as in testdata; its
// lines are
//
//	policy SPEC [replicas=N]     a new client, its policy as users write it
//	CALL start TIME [id=N] [idempotent=no] [deadline=TIME]
//	CALL progress SLOT PHASE TIME
//	CALL head SLOT DISPOSITION TIME
//	CALL reply SLOT DISPOSITION TIME [hint=D] [status=N] [phase=PHASE]
//	CALL advance TIME
//	CALL abandon TIME
//	train N D TIME               N calls begin at TIME and take D each
func TestVariants(t *testing.T) {
	files, err := filepath.Glob("testdata/variants/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata/variants: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			p := &play{t: t}
			for i, block := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
				if i > 0 {
					out.WriteString("\n")
				}
				input, _, _ := strings.Cut(block, "\n----")
				out.WriteString(input + "\n----\n")
				for line := range strings.Lines(input) {
					if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
						out.WriteString(p.step(strings.Fields(line)) + "\n")
					}
				}
			}
			if *policy.Update {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(string(data), out.String()); d != "" && !*policy.Update {
				t.Errorf("%s (-want +got):\n%s", file, d)
			}
		})
	}
}

// play is one client and the calls that are under way.
type play struct {
	t     *testing.T
	c     *policy.Client
	calls map[string]*policy.Call
}

func (p *play) step(f []string) string {
	p.t.Helper()
	named := map[string]string{}
	var words []string
	for i, w := range f {
		k, v, ok := strings.Cut(w, "=")
		if ok && !(f[0] == "policy" && i == 1) {
			named[k] = v
		} else {
			words = append(words, w)
		}
	}
	switch words[0] {
	case "policy":
		np, err := workloads.ParsePolicy(words[1])
		if err != nil {
			p.t.Fatal(err)
		}
		n, _ := strconv.Atoi(named["replicas"])
		p.c, p.calls = policy.NewClient(&np.Policy, max(n, 1), 1), map[string]*policy.Call{}
		return "ok"
	case "train":
		n, _ := strconv.Atoi(words[1])
		for i := range n {
			var k policy.Call
			k.Start(p.c, policy.Request{ID: uint64(i), Idempotent: true}, p.at(words[3]))
			k.Reply(0, policy.Result{}, p.at(words[3]).Add(time.Duration(p.at(words[2]))))
		}
		return "ok"
	}
	k := p.calls[words[0]]
	if k == nil {
		k = &policy.Call{}
		p.calls[words[0]] = k
	}
	return strings.Join(f, " ") + ": " + p.event(k, words[1:], named)
}

func (p *play) event(k *policy.Call, words []string, named map[string]string) string {
	p.t.Helper()
	slot := func() uint8 {
		n, err := strconv.Atoi(words[1])
		if err != nil {
			p.t.Fatal(err)
		}
		return uint8(n)
	}
	at := p.at(words[len(words)-1])
	var a policy.Action
	switch words[0] {
	case "start":
		id, _ := strconv.Atoi(named["id"])
		r := policy.Request{ID: uint64(id), Intended: at, Idempotent: named["idempotent"] != "no"}
		if named["deadline"] != "" {
			r.Deadline = p.at(named["deadline"])
		}
		a = k.Start(p.c, r, at)
	case "progress":
		a = k.Progress(slot(), policy.Phase(p.index(policy.Phases_, words[2])), at)
	case "head":
		a = k.Head(slot(), policy.Disposition(p.index(policy.Dispositions, words[2])), at)
	case "reply":
		r := policy.Result{Disposition: policy.Disposition(p.index(policy.Dispositions, words[2])), Phase: policy.PhaseBody}
		if s := named["status"]; s != "" {
			n, _ := strconv.Atoi(s)
			r.Status = uint16(n)
		}
		if s := named["phase"]; s != "" {
			r.Phase = policy.Phase(p.index(policy.Phases_, s))
		}
		if s := named["hint"]; s != "" {
			r.Hint = time.Duration(p.at(s))
		}
		a = k.Reply(slot(), r, at)
	case "advance":
		a = k.Advance(at)
	case "abandon":
		k.Abandon(at)
		return fmt.Sprintf("%d in flight", p.c.InFlight())
	default:
		p.t.Fatalf("unknown event %q", words)
	}
	s := policy.Describe(a)
	if a.TimedOut != 0 && a.Finish != policy.Expired {
		s += "; by " + a.Part.String()
	}
	return s
}

func (p *play) at(s string) clock.Time {
	d, err := time.ParseDuration(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return clock.Time(d)
}

func (p *play) index(names []string, want string) int {
	i := slices.Index(names, want)
	if i < 0 {
		p.t.Fatalf("%q is none of %q", want, names)
	}
	return i
}
