package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/bench/internal/measure"
	"github.com/onward-ml/onward/internal/testing/bandwidth"
	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/onnx"
	_ "github.com/onward-ml/onward/provider/ort"
	"github.com/onward-ml/onward/tensor"
)

// decodeLayers is the number of layers of the decoders.
const decodeLayers = 4

// decodeWeights lists the formats of the weights and their sizes in bytes per element, with float32
// scales of blocks of 32.
var decodeWeights = []struct {
	name  string
	dense dense
	bytes float64
}{
	{"float32", (*transformer).plain, 4},
	{"float16", (*transformer).half, 2},
	{"8 bits", nbits(8, 4), 1 + 4./32},
	{"4 bits", nbits(4, 4), .5 + 4./32},
}

// decoder is a model that is decoded. A step reads weights bytes of its initializers. If shared is
// set, attention operators append to caches of fixed size, which ONNX Runtime shares between past
// and present.
type decoder struct {
	name    string
	open    func(ctx context.Context, o *onward.SessionOptions) (*onward.Session, error)
	weights float64
	shared  bool
}

// measureDecode measures steps of decoders with caches that are states, for each length of the
// past, and prints the share of the measured bandwidth at which a step reads weights and caches.
// The decoders are those of files, or one of each format of weights if there are none.
func measureDecode(ctx context.Context, files []string, only *regexp.Regexp, threads []measure.Measured,
	d time.Duration, rounds int) error {
	var exported []*decoder
	for _, f := range files {
		x, err := exportedDecoder(f)
		if err != nil {
			return err
		}
		exported = append(exported, x)
	}
	memory := bandwidth.NewMeter()
	for _, m := range threads {
		for i := range max(len(decodeWeights), len(files)) {
			for _, past := range []int{1, 16, 512, 4096, 32768} {
				var x *decoder
				switch {
				case i < len(files):
					x = exported[i]
				case len(files) > 0:
					continue
				default:
					x = builtDecoder(i, past)
				}
				line := fmt.Sprintf("%-8s %6d tokens", x.name, past)
				if !only.MatchString(line) {
					continue
				}
				providers := measure.Providers("openvino")
				times, rate, bytes, err := x.times(ctx, memory, providers, past, m.Threads, d, rounds)
				if err != nil {
					return fmt.Errorf("%s: %w", line, err)
				}
				for i, p := range providers {
					line += fmt.Sprintf("  %s %.3f ms, %.0f %% of bandwidth", p, times[i].Seconds()*1e3,
						100*bytes/times[i].Seconds()/rate)
				}
				fmt.Printf("%s  ratio %.2f  %d threads read %.1f GB/s\n", line,
					times[len(times)-1].Seconds()/times[0].Seconds(), m.Threads, rate/1e9)
			}
		}
	}
	return nil
}

// builtDecoder returns the decoder of a format of weights.
func builtDecoder(i, past int) *decoder {
	w := decodeWeights[i]
	model := llama(decodeLayers, past, w.dense)
	for _, v := range append(model.Graph.Inputs, model.Graph.Outputs...) {
		if s := v.Type.Tensor.Shape; len(s.Dims) == 4 { // a cache
			s.Dims[2] = onnx.Dim{Kind: onnx.DimParam, Param: "length"}
		}
	}
	return &decoder{w.name, func(ctx context.Context, o *onward.SessionOptions) (*onward.Session, error) {
		return onward.OpenModel(ctx, model, o)
	}, w.bytes * decodeLayers * (2*1024*1024 + 2*1024*256 + 3*1024*2816), true}
}

// exportedDecoder returns the decoder of a file with the inputs and outputs that Optimum and ONNX
// Runtime GenAI name: input_ids, attention_mask, position_ids, past_key_values and present.
func exportedDecoder(file string) (*decoder, error) {
	model, err := onnx.ReadFile(file, &onnx.ReadOptions{Map: true})
	if err != nil {
		return nil, err
	}
	defer model.Close()
	x := &decoder{name: strings.TrimSuffix(filepath.Base(file), ".onnx"),
		weights: float64(bandwidth.Weights(model.Graph)),
		open: func(ctx context.Context, o *onward.SessionOptions) (*onward.Session, error) {
			return onward.Open(ctx, file, o)
		}}
	for _, n := range model.Graph.Nodes {
		x.shared = x.shared || n.OpType == "GroupQueryAttention"
	}
	return x, nil
}

// times returns the shortest time of a step for each provider, which take turns with each other and
// with measuring the bandwidth, that bandwidth, and the bytes of weights and caches.
func (x *decoder) times(ctx context.Context, memory *bandwidth.Meter, providers []string, past, threads int,
	d time.Duration, rounds int) (best []time.Duration, rate, bytes float64, err error) {
	best = make([]time.Duration, len(providers))
	steps := make([]*decodeSteps, len(providers))
	for i, p := range providers {
		s, err := x.open(ctx, &onward.SessionOptions{Threads: threads, Providers: []onward.ProviderConfig{{Name: p}}})
		if err != nil {
			return nil, 0, 0, fmt.Errorf("%s: %w", p, err)
		}
		defer s.Close()
		if steps[i], err = x.bind(s, p, past); err != nil {
			return nil, 0, 0, fmt.Errorf("%s: %w", p, err)
		}
		defer steps[i].binding.Close()
	}
	for range rounds {
		for i, p := range providers {
			rate = max(rate, memory.Rate(threads))
			t, err := steps[i].time(ctx, threads, d)
			if err != nil {
				return nil, 0, 0, fmt.Errorf("%s: %w", p, err)
			}
			if best[i] == 0 || t < best[i] {
				best[i] = t
			}
		}
	}
	return best, rate, x.weights + steps[0].cache, nil
}

// decodeSteps runs steps with a past of one length.
type decodeSteps struct {
	session *onward.Session
	binding *onward.Binding
	past    int
	states  []string
	cache   float64 // bytes
}

// bind binds the inputs and outputs of a step: caches as states on the Go engine; on others, to one
// buffer for past and present if shared is set, or to two.
func (x *decoder) bind(s *onward.Session, provider string, past int) (*decodeSteps, error) {
	b, err := s.NewBinding()
	if err != nil {
		return nil, err
	}
	r := &decodeSteps{session: s, binding: b, past: past}
	present := func(in string) string {
		return strings.Replace(strings.Replace(in, "past_key_values", "present", 1), "past", "present", 1)
	}
	caches := map[string]string{}
	for _, in := range s.Inputs() {
		cache := strings.HasPrefix(in.Name, "past")
		shape := make([]int, len(in.Shape))
		for i, v := range in.Shape {
			switch shape[i] = int(v.Value); {
			case v.Value >= 0:
			case cache && i == 2:
				if shape[i] = past; provider != "cpu" && x.shared {
					shape[i]++
				}
			case in.Name == "attention_mask" && i == 1:
				shape[i] = past + 1
			default:
				shape[i] = 1
			}
		}
		t := tensor.Must(tensor.Zeros(in.ElementType().Elem, shape...))
		if cache {
			fill(t)
		}
		if ids, ok := tensor.Data[int64](t); ok == nil {
			for i := range ids {
				ids[i] = 1
				if in.Name == "position_ids" {
					ids[i] = int64(past)
				}
			}
		}
		err = errors.Join(err, b.BindCPUInput(in.Name, t))
		if !cache {
			continue
		}
		caches[present(in.Name)] = in.Name
		r.cache += float64(len(t.Bytes()))
		if provider != "cpu" {
			if !x.shared {
				shape[2]++
				t = tensor.Must(tensor.Zeros(in.ElementType().Elem, shape...))
			}
			err = errors.Join(err, b.BindCPUOutput(present(in.Name), t))
		}
	}
	for _, o := range s.Outputs() {
		if in, ok := caches[o.Name]; !ok {
			err = errors.Join(err, b.BindOutput(o.Name, onward.Buffer{}))
		} else if provider == "cpu" {
			err = errors.Join(err, b.BindState(o.Name, in))
			r.states = append(r.states, in)
		}
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return r, nil
}

// time returns the shortest time of a step: with one thread, other programs do not extend it.
func (r *decodeSteps) time(ctx context.Context, threads int, d time.Duration) (time.Duration, error) {
	best := time.Duration(0)
	for k, end := 0, time.Now().Add(d); k < 4 || time.Now().Before(end); k++ {
		start := cputime.Now()
		if err := r.session.RunBinding(ctx, r.binding, nil); err != nil {
			return 0, err
		}
		if t := start.ElapsedBy(threads); k > 1 && (best == 0 || t < best) {
			best = t
		}
		for _, name := range r.states {
			if err := r.binding.TruncateState(name, 2, r.past); err != nil {
				return 0, err
			}
		}
	}
	return best, nil
}

// fill writes positive numbers to a cache. Memory that has never been written is one page of zeros,
// which stays in the processor's caches.
func fill(t *tensor.Tensor) {
	b, width := t.Bytes(), t.DType().Size()
	r := seeded()
	for i := range b {
		b[i] = byte(r.Uint32())
		if i%width == width-1 { // sign and exponent
			b[i] = b[i]&3 | 0x38
		}
	}
}
