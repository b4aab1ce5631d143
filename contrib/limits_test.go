package contrib

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
)

// TestLargeResults checks that results which exceed the memory limit are errors before they are
// allocated.
func TestLargeResults(t *testing.T) {
	texts := func(n int) *array { return stringsOf(t, strings.Split(strings.Repeat("a,", n-1)+"a", ",")...) }
	numbers := func(v ...int64) *array {
		data, err := json.Marshal(v)
		enginetest.Must(t, err)
		return &array{Type: "int64", Shape: []int{len(v)}, Data: data}
	}
	floats := &array{Type: "float", Shape: []int{1}, Data: json.RawMessage("[1]")}
	long := stringsOf(t, strings.Repeat("a", 1<<20))
	frames := bytes.Repeat(append([]byte{0xff, 0xf3, 0x14, 0xc4}, make([]byte, 20)...), 10000) // 576 samples each
	bytesOf := make([]int, len(frames))
	for i, v := range frames {
		bytesOf[i] = int(v)
	}
	file, err := json.Marshal(bytesOf)
	enginetest.Must(t, err)
	sound := &array{Type: "uint8", Shape: []int{len(frames)}, Data: file}
	for _, c := range []*opCase{
		{Op: "AudioDecoder", In: []*array{sound}, Types: []string{"float"}},
		{Op: "StringJoin", In: []*array{texts(100), long, numbers(0)}, Types: []string{"string"}},
		{Op: "StringRegexReplace", In: []*array{texts(100), stringsOf(t, "a"), long}, Types: []string{"string"}},
		{Op: "StringRegexReplace", In: []*array{stringsOf(t, strings.Repeat("a", 1000)), stringsOf(t, ""), long}, Types: []string{"string"}},
		{Op: "RaggedTensorToSparse", In: []*array{numbers(0, 1<<62)}, Types: []string{"int64", "int64"}},
		{Op: "RaggedTensorToSparse", In: []*array{numbers(0, 1<<40)}, Types: []string{"int64", "int64"}},
		{Op: "SegmentSum", In: []*array{floats, numbers(1 << 40)}, Types: []string{"float"}},
		{Op: "SegmentSum", In: []*array{floats, numbers(1<<63 - 1)}, Types: []string{"float"}},
		{Op: "StringSplit", In: []*array{long, stringsOf(t, ""), {Type: "bool", Shape: []int{1}, Data: json.RawMessage("[true]")}},
			Types: []string{"int64", "string", "int64"}},
	} {
		both(t, func(t *testing.T, o *onward.SessionOptions) {
			o.Limits.MaxMemory = 16 << 20
			if out, err := c.run(o); err == nil || strings.Contains(err.Error(), "panicked") {
				t.Errorf("%s %s: got %v, %v, want an error", c.Op, c.short(), len(out), err)
			}
		})
	}
}

func stringsOf(t *testing.T, s ...string) *array {
	data, err := json.Marshal(s)
	enginetest.Must(t, err)
	return &array{Type: "string", Shape: []int{len(s)}, Data: data}
}

// TestCancelled checks that a context which is cancelled ends the operators that take longest.
func TestCancelled(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	vocab := map[string]int{"a": 0}
	for size := 2; size <= 1<<19; size *= 2 {
		vocab[text[:size]] = len(vocab)
	}
	files, err := json.Marshal(vocab)
	enginetest.Must(t, err)
	for _, c := range []*opCase{
		{Op: "GPT2Tokenizer", Attrs: map[string]any{"vocab": string(files), "merges": "a a\naa aa\n", "added_token": text[1:] + "b=7"},
			In: []*array{stringsOf(t, text)}, Types: []string{"int64"}},
		{Op: "StringRegexReplace", In: []*array{stringsOf(t, text), stringsOf(t, "(a|aa)*b"), stringsOf(t, "")},
			Types: []string{"string"}},
	} {
		m, err := c.model()
		enginetest.Must(t, err)
		s := enginetest.Open(t, m, enginetest.On("cpu"))
		in := onward.Values{}
		for i, a := range c.In {
			in["x"+string(rune('0'+i))], err = a.tensor()
			enginetest.Must(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = s.Run(ctx, in, nil)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "want at most") {
			t.Errorf("%s: %v", c.Op, err)
		}
	}
}

// TestWindowsAsk checks that resampling asks the context within a window, which has tens of
// millions of elements for a file of a rate that is much higher.
func TestWindowsAsk(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kaiser(&call{ctx: ctx}, nil, 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
