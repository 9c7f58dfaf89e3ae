package workloads

import (
	"fmt"
	"strconv"

	"latencylab/service"
	"latencylab/units"
)

// maxScript bounds the list of a script.
const maxScript = 1000

// endings says what a key takes that names how an exchange ends, in place of
// word.
func endings(word string, least int) string {
	near := "reset"
	if word != "" && (word[0] < '0' || word[0] > '9') {
		near = Nearest(word, service.FaultNames())
	}
	return fmt.Sprintf("a status from %d to 599, or a fault such as %s", least, near)
}

// endingField reads a status from least on, or a fault.
func endingField(to *service.Ending, least int) func(value) error {
	return textField(to, endings("", least), func(s string) (service.Ending, error) { return readEnding(s, least) })
}

func readEnding(s string, least int) (service.Ending, error) {
	e, ok := service.EndingNamed(s)
	if !ok || e.Fault == service.FaultNone && int(e.Status) < least {
		return e, wanted(s, endings(s, least))
	}
	return e, nil
}

func setScript(to *[]service.Ending, v value) error {
	return listField(v, to, "a list such as [503, 503, 200]", maxScript, func(s string) (service.Ending, error) {
		return readEnding(s, 200)
	})
}

const aShare = "a share such as 1%"

// setFaults reads a map of shares by kind, or of what kinds look like.
func setFaults(to *service.Faults, v value) error {
	ps, err := v.pairs("a map such as {reset: 1%, hang: 0.5%}")
	if err != nil {
		return err
	}
	for _, p := range ps {
		f, ok := service.FaultNamed(p.key)
		if !ok {
			return v.f.at(p.line, unknownKey(p.key, "fault", service.FaultNames()))
		}
		s := &to[f]
		if _, scalar := p.scalar(); scalar {
			err = textField(&s.Share, aShare, units.ParseShare)(p.value)
		} else {
			err = setFault(s, f, p.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setFault reads the map of one kind, with the keys that it has.
func setFault(s *service.FaultSpec, f service.Fault, v value) error {
	has := f.Shape()
	fields := []field{{"share", textField(&s.Share, aShare, units.ParseShare)}}
	if has.Interval > 0 {
		fields = append(fields, field{"interval", spanField(&s.Interval)})
	}
	if has.Bytes > 0 {
		fields = append(fields, field{"bytes", sizeField(&s.Bytes)})
	}
	if has.At > 0 {
		fields = append(fields, field{"at", func(v value) error {
			s.At = new(float64)
			return textField(s.At, "a share such as 50%", units.ParseShare)(v)
		}})
	}
	if has.Status > 0 {
		fields = append(fields, field{"status", textField(&s.Status, "100, 102 or 103", readInterim)})
	}
	if has.Times > 0 {
		fields = append(fields, field{"times", countField(&s.Times, 1, 1_000_000)})
	}
	_, err := v.fields("fault."+f.String(), "a share such as 1%, or a map such as {share: 1%}", fields)
	return err
}

// readInterim reads the status of an interim answer.
func readInterim(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n != 100 && n != 102 && n != 103 {
		return 0, wanted(s, "100, 102 or 103")
	}
	return uint16(n), nil
}

// sizeField reads a size of 1 B to 1 GiB.
func sizeField(to *int) func(value) error {
	return textField(to, "a size such as 64B", func(s string) (int, error) {
		n, err := units.ParseSize(s)
		switch {
		case err != nil:
			return 0, err
		case n < 1 || n > 1<<30:
			return 0, wanted(s, "1B to 1GiB")
		}
		return int(n), nil
	})
}

// faults writes shares and shapes.
func (y *yamlWriter) faults(fs *service.Faults) {
	if *fs == (service.Faults{}) {
		return
	}
	y.open("fault")
	for i := range fs {
		s, word := fs[i], service.Fault(i).String()
		if s == (service.FaultSpec{}) {
			continue
		}
		if s == (service.FaultSpec{Share: s.Share}) {
			y.word(word, units.FormatShare(s.Share))
			continue
		}
		y.open(word)
		if s.Share > 0 {
			y.word("share", units.FormatShare(s.Share))
		}
		y.span("interval", s.Interval)
		if s.Bytes > 0 {
			y.word("bytes", units.FormatSize(int64(s.Bytes)))
		}
		if s.At != nil {
			y.word("at", units.FormatShare(*s.At))
		}
		y.count("status", uint64(s.Status))
		y.count("times", uint64(s.Times))
		y.close()
	}
	y.close()
}
