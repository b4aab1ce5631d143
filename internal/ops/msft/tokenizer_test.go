package msft

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
)

// TestTokenizerRefusesCostlyPatterns: the search for all matches cannot be interrupted, so its cost is
// bounded beforehand.
func TestTokenizerRefusesCostlyPatterns(t *testing.T) {
	x := optest.Tensor([]string{"aaab", "c"}, 2)
	optest.Fail(t, "com.microsoft.Tokenizer", 1, map[string]any{"mark": 0, "mincharnum": 1, "pad_value": "#", "tokenexp": "(" + strings.Repeat("a?", 200) + "){999}b"}, "instructions with all repetitions", x)
	optest.Fail(t, "com.microsoft.Tokenizer", 1, map[string]any{"mark": 0, "mincharnum": 1, "pad_value": "#", "tokenexp": "(" + strings.Repeat("a?", 20) + "){999}b"},
		"string 0 has 100000 bytes, want at most", optest.Tensor([]string{strings.Repeat("a", 100_000)}, 1))
}
