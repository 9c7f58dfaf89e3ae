package lab

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// later are cases of experiments that are no labs yet.
var later = map[string]bool{"idempotency": true, "side-effects": true, "tx-length": true}

var columns = regexp.MustCompile(`\s{2,}`)

// pageTable returns the rows that docs/labs.md shows of a lab, by name, each by
// column.
func pageTable(t *testing.T, page, name string) map[string]map[string]string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "```text\n$ loadgen lab "+name+"\n")
	if !ok {
		t.Fatalf("docs/labs.md does not show what loadgen lab %s prints", name)
	}
	block, _, _ := strings.Cut(rest, "\nheld against:")
	rows := map[string]map[string]string{}
	var keys []string
	for _, l := range strings.Split(block, "\n") {
		cells := columns.Split(strings.TrimRight(l, " "), -1)
		switch {
		case keys == nil && len(cells) > 1 && cells[0] == "":
			keys = cells[1:]
		case keys != nil && len(cells) == len(keys)+1:
			row := map[string]string{}
			for i, k := range keys {
				row[k] = cells[i+1]
			}
			rows[cells[0]] = row
		}
	}
	return rows
}

// TestTheLabsMeetTheirCases: every row of the cases stands on the page, which
// another test holds to what the labs print, with each figure in its range.
func TestTheLabsMeetTheirCases(t *testing.T) {
	data, err := os.ReadFile("testdata/seed-labs.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Cases []map[string]any }
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/labs.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range doc.Cases {
		name, _ := c["lab"].(string)
		if later[name] {
			continue
		}
		row, _ := c["row"].(string)
		if row == "" {
			row, _ = c["inputs"].(string)
		}
		got := pageTable(t, string(text), name)[row]
		if got == nil {
			t.Errorf("%s: no row %q", name, row)
			continue
		}
		for key, want := range c {
			switch key {
			case "lab", "row", "inputs", "seed", "recovered_reason":
				continue
			}
			checked++
			if cell, ok := got[key]; !ok {
				t.Errorf("%s, %s: no column %s", name, row, key)
			} else if !meets(name, cell, want) {
				t.Errorf("%s, %s: %s is %s, want %v", name, row, key, cell, want)
			}
		}
	}
	if checked < 60 {
		t.Errorf("%d figures were looked at", checked)
	}
}

// meets says whether a cell is what a case wants: a number, a word, nothing, the
// bounds of a range, or in budget-walk a list.
func meets(name, cell string, want any) bool {
	number, err := strconv.ParseFloat(cell, 64)
	switch w := want.(type) {
	case nil:
		return strings.HasPrefix(cell, "n/a")
	case string:
		return cell == w
	case float64:
		return err == nil && number == w
	case []any:
		low, high := w[0].(float64), w[1].(float64)
		if name == "budget-walk" {
			return cell == strconv.FormatFloat(low, 'g', -1, 64)+", "+strconv.FormatFloat(high, 'g', -1, 64)
		}
		return err == nil && low <= number && number <= high
	}
	return false
}
