package serve

import (
	"fmt"
	"strings"
	"testing"
)

// TestLongPairsKeepTheMemory sends pairs of two long texts. Every window of one with every window
// of the other would take gigabytes.
func TestLongPairsKeepTheMemory(t *testing.T) {
	s := newServer(t, folders(t, "reranker"), nil)
	long := strings.Repeat("cat ", 10_000)
	for _, c := range []struct {
		truncate bool
		code     int
	}{{true, 200}, {false, 413}} {
		body := fmt.Sprintf(`{"query":%q,"texts":[%q],"truncate":%v}`, long, long, c.truncate)
		n := allocated(func() {
			if w := call(s, "POST", "/rerank", []byte(body)); w.Code != c.code {
				t.Errorf("truncate %v: %d %.200s, want %d", c.truncate, w.Code, w.Body, c.code)
			}
		})
		if limit := int64(256 * len(body)); n > limit {
			t.Errorf("truncate %v: a body of %d bytes allocates %d, want at most %d", c.truncate, len(body), n, limit)
		}
	}
}
