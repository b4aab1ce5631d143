package driver

import (
	"fmt"
	"slices"
	"strings"
)

// maxSuggested is the number of names that [Suggest] lists.
const maxSuggested = 20

// Suggest returns a text for an error about an unknown name: the most similar one of the names
// that there are, if one is similar, and a list of them: `did you mean "mask"? there are "ids",
// "mask"`. It is empty if there are no names.
func Suggest(name string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	nearest, best := "", max(1, len(name)/3)+1
	for _, n := range names {
		if max(len(n)-len(name), len(name)-len(n)) >= best {
			continue // names of files may have megabytes
		}
		if d := distance(strings.ToLower(name), strings.ToLower(n), best); d < best {
			nearest, best = n, d
		}
	}
	var b strings.Builder
	if nearest != "" {
		fmt.Fprintf(&b, "did you mean %.200q? ", nearest)
	}
	b.WriteString("there are ")
	for i, n := range names[:min(len(names), maxSuggested)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.200q", n)
	}
	if more := len(names) - maxSuggested; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// distance returns the optimal string alignment distance of a and b in bytes: inserted, deleted,
// replaced, or swapped with the next one. It returns limit if the distance is not below limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d++
			}
			d = min(d, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
		}
		if slices.Min(row) >= limit {
			return limit
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
