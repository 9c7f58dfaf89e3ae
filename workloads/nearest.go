package workloads

import "unicode/utf8"

// Nearest returns the word of words that is the fewest edits away from word:
// insertions, deletions, replacements and exchanges of neighbours (Damerau,
// "A technique for computer detection and correction of spelling errors", CACM
// 1964; no part is edited twice). The first of equals wins; "" when words is
// empty. It is what error messages propose for a name that is not known.
func Nearest(word string, words []string) string {
	best, least := "", -1
	w := []rune(clip(word))
	for _, c := range words {
		if d := edits(w, []rune(c)); least < 0 || d < least {
			best, least = c, d
		}
	}
	return best
}

// edits returns the restricted Damerau-Levenshtein distance of a and b.
func edits(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j-1]+cost, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// clip shortens text of the user's for a message of one line.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	n := most
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
