package tokenizer

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/tokenizerfiles"
)

// oraclePython returns the Python that the comparisons run.
func oraclePython(t testing.TB) string {
	python := os.Getenv("ONWARD_TOKENIZERS")
	if python == "" {
		t.Skip("ONWARD_TOKENIZERS does not name a Python with tokenizers 0.23.3; make test-tokenizers installs one")
	}
	return python
}

// publicTokenizers returns the folder with the tokenizers of public models.
func publicTokenizers(t testing.TB) string {
	dir, err := tokenizerfiles.Dir()
	if err != nil {
		t.Skip(err)
	}
	return dir
}

// textCount returns how many texts a comparison draws: n, 500 times as many if ONWARD_LONG is
// set, or ONWARD_TEXTS.
func textCount(n int) int {
	if k, err := strconv.Atoi(os.Getenv("ONWARD_TEXTS")); err == nil && k > 0 {
		return k
	}
	if os.Getenv("ONWARD_LONG") != "" {
		return 500 * n
	}
	return n
}

// seed returns ONWARD_SEED, or 0.
func seed() uint64 {
	n, _ := strconv.ParseUint(os.Getenv("ONWARD_SEED"), 10, 64)
	return n
}

// oracle is a Python process with package tokenizers.
type oracle struct {
	t   *testing.T
	in  *bufio.Writer
	out *bufio.Reader
}

// oracleResult is what tokenizers makes of a text.
type oracleResult struct {
	failed  string // the message of an error or a panic
	ids     []int64
	offsets [][2]int
	words   []int32
	types   []int64
	tokens  []string
	decoded string
}

func startOracle(t *testing.T, python, file string, args ...string) *oracle {
	return startPython(t, python, append([]string{"testdata/oracle.py", file}, args...)...)
}

// startPython runs a script of testdata.
func startPython(t *testing.T, python string, args ...string) *oracle {
	cmd := exec.Command(python, args...)
	cmd.Stderr = io.Discard // tokenizers prints its panics, which results report
	cmd.Env = append(os.Environ(), "TOKENIZERS_PARALLELISM=false", "RUST_BACKTRACE=0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return &oracle{t, bufio.NewWriter(in), bufio.NewReaderSize(out, 1<<16)}
}

func (o *oracle) number() uint32 {
	var b [4]byte
	if _, err := io.ReadFull(o.out, b[:]); err != nil {
		o.t.Fatalf("oracle: %v", err)
	}
	return binary.LittleEndian.Uint32(b[:])
}

func (o *oracle) text() string {
	b := make([]byte, o.number())
	if _, err := io.ReadFull(o.out, b); err != nil {
		o.t.Fatalf("oracle: %v", err)
	}
	return string(b)
}

// send writes a batch of texts.
func (o *oracle) send(texts []string) {
	put := func(n int) { binary.Write(o.in, binary.LittleEndian, uint32(n)) }
	put(len(texts))
	for _, s := range texts {
		put(len(s))
		o.in.WriteString(s)
	}
	if err := o.in.Flush(); err != nil {
		o.t.Fatalf("oracle: %v", err)
	}
}

func (o *oracle) encode(texts []string) []oracleResult {
	o.send(texts)
	results := make([]oracleResult, len(texts))
	for i := range results {
		r := &results[i]
		n := o.number()
		if n == 0xFFFFFFFF {
			r.failed = o.text()
			continue
		}
		for range n {
			r.ids = append(r.ids, int64(o.number()))
		}
		for range n {
			lo, hi := o.number(), o.number()
			r.offsets = append(r.offsets, [2]int{int(lo), int(hi)})
		}
		for range n {
			r.words = append(r.words, int32(o.number()))
		}
		for range n {
			r.types = append(r.types, int64(o.number()))
		}
		r.decoded = o.text()
		tokens := o.text()
		if n > 0 {
			r.tokens = strings.Split(tokens, "\x00")
		}
	}
	return results
}
