package contrib

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/enginetest"
)

// oracle is a Python process that runs operators of onnxruntime-extensions.
type oracle struct {
	in  *json.Encoder
	out *bufio.Scanner
}

func startOracle(t *testing.T) *oracle {
	python := os.Getenv("ONWARD_EXTENSIONS")
	if python == "" {
		t.Skip("ONWARD_EXTENSIONS does not name a Python with onnxruntime-extensions 0.15.2; " +
			"make test-extensions installs one")
	}
	cmd := exec.Command(python, "testdata/oracle.py")
	in, err := cmd.StdinPipe()
	enginetest.Must(t, err)
	out, err := cmd.StdoutPipe()
	enginetest.Must(t, err, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<28)
	return &oracle{json.NewEncoder(in), s}
}

// run sets the result of a case.
func (o *oracle) run(t *testing.T, c *opCase) {
	t.Helper()
	c.Out, c.Error = nil, ""
	enginetest.Must(t, o.in.Encode(c))
	if !o.out.Scan() {
		t.Fatalf("onnxruntime-extensions ends for %s %s", c.Op, c.short())
	}
	enginetest.Must(t, json.Unmarshal(o.out.Bytes(), c))
}

const parts = "the|hello|world| | |  |\n|\t|\r\n|a|ab|b|x|é|É|İ|ß|ﬁ|日本|한국|Привет|ΑΣ|🎉|e\u0301|\u00a0|\u2028|" +
	"\u3000|\u00ad|'s|'LL|n't|12|123456|½|٣|.|,|!|...|-|(|)|\"|“|#|##|[MASK]|[UNK]|<s>|</s>|<mask>|<|endoftext|>|" +
	"<x>|unwanted|running|\u200b|_|=|\u1e9e|\U0001d7d9|\u0378|\u2160|\ufffd|\x1c|\x85|▁|▁▁"

// drawText returns a text of up to 12 parts.
func drawText(r *rand.Rand) string {
	list := strings.Split(parts, "|")
	var b strings.Builder
	for range r.IntN(13) {
		if r.IntN(8) == 0 {
			b.WriteRune(drawRune(r))
		} else {
			b.WriteString(list[r.IntN(len(list))])
		}
	}
	return b.String()
}

func drawRune(r *rand.Rand) rune {
	for {
		c := rune(1 + r.IntN([]int{0x7F, 0x600, 0xFFFF, 0x10FFFF}[r.IntN(4)]))
		if c < 0xD800 || c > 0xDFFF {
			return c
		}
	}
}

// draw returns a case like c with other texts or ids, or nil if onnxruntime-extensions reads or
// writes out of bounds, or does not end, for some of them.
func draw(r *rand.Rand, c *opCase) *opCase {
	if c.Op == "AudioDecoder" {
		if c.Attrs["downsampling_rate"] == nil || c.Attrs["stereo_to_mono"] != nil {
			return nil
		}
		return drawSound(r, c)
	}
	if c.Error != "" || c.Attrs["padding_length"] != nil || c.Attrs["use_indices"] != nil ||
		c.Attrs["added_token"] != nil || c.Op == "TrieTokenizer" || c.Op == "TrieDetokenizer" {
		return nil
	}
	n := *c
	n.In = append([]*array{}, c.In...)
	a := *c.In[0]
	n.In[0] = &a
	size := 1
	for _, d := range a.Shape {
		size *= d
	}
	switch {
	case a.Type == "string":
		texts := make([]string, size)
		for i := range texts {
			texts[i] = drawText(r)
			if c.Op == "HfJsonTokenizer" {
				texts[i] += " .." // ends that begin an added token are dropped there
			}
		}
		a.Data, _ = json.Marshal(texts)
	case strings.HasSuffix(c.Op, "Decoder") && size > 0:
		ids := make([]int, size)
		for i := range ids {
			ids[i] = r.IntN(40) - 1
		}
		a.Data, _ = json.Marshal(ids)
	default:
		return nil
	}
	if len(c.Types) == 3 && strings.HasSuffix(c.Op, "Tokenizer") && c.Types[2] == "int64" {
		n.Types = c.Types[:2] // offsets that it leaves out are not initialized
	}
	if strings.HasSuffix(c.Op, "BertTokenizer") {
		n.Types = c.Types[:min(3, len(c.Types))]
	}
	return &n
}

// drawSound returns a case with a file of one channel, of 8 kHz and 16 bits, at a lower rate.
func drawSound(r *rand.Rand, c *opCase) *opCase {
	samples := 1 + r.IntN(500)
	file := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00" +
		"\x02\x00\x10\x00data")
	data := make([]int, 0, len(file)+4+2*samples)
	for _, v := range binary.LittleEndian.AppendUint32(file, uint32(2*samples)) {
		data = append(data, int(v))
	}
	for range 2 * samples {
		data = append(data, r.IntN(256))
	}
	text, _ := json.Marshal(data)
	n := *c
	n.Attrs = map[string]any{"downsampling_rate": float64(1 + r.IntN(8000))}
	n.In = []*array{{Type: "uint8", Shape: []int{len(data)}, Data: text}}
	return &n
}

// TestDifferential compares the operators with onnxruntime-extensions for texts and ids that are
// drawn, with the attributes of the recorded cases.
func TestDifferential(t *testing.T) {
	n := 20
	if k, err := strconv.Atoi(os.Getenv("ONWARD_TEXTS")); err == nil && k > 0 {
		n = k
	}
	seed, _ := strconv.ParseUint(os.Getenv("ONWARD_SEED"), 10, 64)
	cpu := enginetest.On("cpu")
	cases := map[string][]*opCase{}
	r := rand.New(rand.NewPCG(seed, 1))
	for _, c := range recorded(t) {
		for range n {
			if d := draw(r, c); d != nil {
				cases[c.Op] = append(cases[c.Op], d)
			}
		}
	}
	for op, list := range cases {
		t.Run(op, func(t *testing.T) { // each in a process of its own, whose memory others cannot damage
			o := startOracle(t)
			failures, compared := 0, 0
			for _, c := range list {
				o.run(t, c)
				if strings.Contains(c.Error, "codec can't decode") {
					continue // Python cannot return a part of a character
				}
				compared++
				out, err := c.run(&onward.SessionOptions{Providers: cpu.Providers})
				if diff := c.compare(out, err); diff != "" {
					if failures++; failures <= 3 {
						t.Errorf("%s %s\n%s", c.Op, c.short(), diff)
					}
				}
			}
			t.Logf("%d calls, %d differences", compared, failures)
		})
	}
}
