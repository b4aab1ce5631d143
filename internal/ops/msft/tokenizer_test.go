package msft

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestTokenizerRefusesCostlyPatterns: the cost of the search for all matches is bounded beforehand,
// since without a deadline it could take hours.
func TestTokenizerRefusesCostlyPatterns(t *testing.T) {
	x := optest.Tensor([]string{"aaab", "c"}, 2)
	optest.Fail(t, "com.microsoft.Tokenizer", 1, map[string]any{"mark": 0, "mincharnum": 1, "pad_value": "#",
		"tokenexp": "(" + strings.Repeat("a?", 200) + "){999}b"}, "instructions with all repetitions", x)
	optest.Fail(t, "com.microsoft.Tokenizer", 1, map[string]any{"mark": 0, "mincharnum": 1, "pad_value": "#",
		"tokenexp": "(" + strings.Repeat("a?", 20) + "){999}b"},
		"string 0: the string has 100000 bytes, want at most", optest.Tensor([]string{strings.Repeat("a", 100_000)}, 1))
}
