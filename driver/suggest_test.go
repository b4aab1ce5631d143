package driver

import (
	"fmt"
	"strings"
	"testing"
)

func TestSuggest(t *testing.T) {
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf("value%02d", i)
	}
	for _, c := range []struct {
		name  string
		names []string
		want  string
	}{
		{"x", nil, ""},
		{"imput", []string{"input", "mask"}, `did you mean "input"? there are "input", "mask"`},
		{"inptu", []string{"mask", "input"}, `did you mean "input"? there are "mask", "input"`},
		{"Input", []string{"mask", "input"}, `did you mean "input"? there are "mask", "input"`},
		{"input_id", []string{"input_ids", "input_mask"}, `did you mean "input_ids"? there are "input_ids", "input_mask"`},
		{"x", []string{"float_input"}, `there are "float_input"`},
		{"x", []string{"y"}, `did you mean "y"? there are "y"`},
		{"", []string{"input"}, `there are "input"`},
	} {
		if got := Suggest(c.name, c.names); got != c.want {
			t.Errorf("Suggest(%q, %q) = %s, want %s", c.name, c.names, got, c.want)
		}
	}
	if got := Suggest("value29", many); !strings.HasPrefix(got, `did you mean "value29"? there are "value00"`) || !strings.HasSuffix(got, `"value19" and 10 more`) {
		t.Error(got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"ort:cdua", "ort:cuda", 1},
		{"abc", "abc", 0}, {"abcdef", "ghijkl", 5}, {"a", "abcdefgh", 5}} {
		for _, p := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := distance(p[0], p[1], 5); got != c.want {
				t.Errorf("distance(%q, %q) = %d, want %d", p[0], p[1], got, c.want)
			}
		}
	}
}
