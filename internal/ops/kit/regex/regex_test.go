package regex

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestFindAll compares the matches with those of package regexp, in strings that are searched at
// once, in parts, and with a reader.
func TestFindAll(t *testing.T) {
	long := strings.Repeat("ab, ", 1<<18)
	for _, pattern := range []string{" ", ", ", "ab", "a*", "[ ,]+", "x?", `\w+`, "語", `\bab`, "$", "(?i)AB"} {
		r, err := Compile(pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"", "a", "aab  b, ", "日本 語, né", long[:1<<15], long, long[3:] + "ab",
			strings.Repeat("x", 1<<20-1) + ", ab"} {
			if r.text == "" && len(s) > 1<<15 {
				continue // a reader takes long
			}
			var got [][]int
			if err := r.FindAll(optest.NewCall(), s, func(from, to int) { got = append(got, []int{from, to}) }); err !=
				nil {
				t.Fatal(err)
			}
			if want := regexp.MustCompile(pattern).FindAllStringIndex(s, -1); !reflect.DeepEqual(got, want) {
				t.Errorf("%q in %d bytes: %d matches, want %d", pattern, len(s), len(got), len(want))
			}
		}
	}
}
