package serve

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// version is a loaded version of a model.
type version struct {
	model     string
	number    int64
	signature string // of the files, to notice changes
	config    *inference.ModelConfig
	inputs    specs
	outputs   specs
	policy    schedulePolicy
	session   io.Closer
	scheduler *scheduler
	sequences *sequences   // nil if the model is stateless
	ensemble  *ensemble    // nil if the version is a model, with a session
	texts     *textModel   // nil if the version is not a model folder; session is the same
	created   time.Time    // of a model folder
	memory    *reservation // of the configuration and the labels
	stats     stats

	users sync.WaitGroup // requests that use the version
}

func (v *version) release() { v.users.Done() }

// retire closes the version after the requests that use it.
func (v *version) retire() error {
	v.users.Wait()
	defer v.memory.release()
	if v.ensemble != nil {
		return nil
	}
	if v.sequences != nil {
		v.sequences.close()
	}
	return v.session.Close()
}

// openVersion opens a version of a model. dir is the model's folder, or "" for a plain file.
func (s *Server) openVersion(ctx context.Context, name string, number int64, path string, data []byte, dir string,
	cfg *inference.ModelConfig) (opened *version, err error) {
	defer s.recovered("load '"+name+"'", &err)
	if cfg.EnsembleScheduling != nil {
		return s.openEnsemble(ctx, name, number, dir, cfg)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return s.openFolder(ctx, name, number, path, cfg)
	}
	o := s.opts.Session
	if p := cfg.Parameters["provider"]; p != nil {
		o.Providers = []onward.ProviderConfig{{Name: p.StringValue}}
		o.DisableFallback = true
	}
	if p := cfg.Parameters["intra_op_thread_count"]; p != nil {
		n, err := strconv.Atoi(p.StringValue)
		if err != nil {
			return nil, fmt.Errorf("parameter intra_op_thread_count: %w", err)
		}
		o.Threads = n
	}
	var sess *onward.Session
	if data != nil {
		sess, err = onward.OpenBytes(ctx, data, &o)
	} else {
		sess, err = onward.Open(ctx, path, &o)
	}
	if err != nil {
		return nil, err
	}
	v := &version{model: name, number: number, config: proto.Clone(cfg).(*inference.ModelConfig), session: sess}
	defer func() {
		if opened == nil {
			_ = v.retire() // there is an error already
		}
	}()
	if v.memory, err = s.configMemory(v.config); err != nil {
		return nil, err
	}
	if err := v.configure(ctx, sess, dir, s); err != nil {
		return nil, err
	}
	return v, nil
}

// configMemory reserves the memory of a configuration.
func (s *Server) configMemory(c *inference.ModelConfig) (*reservation, error) {
	memory := &reservation{s: s}
	if proto.Size(c) < smallConfig { // counts with the model
		return memory, nil
	}
	b, err := proto.Marshal(c)
	if err == nil {
		// It is copied, and so are the policies.
		err = memory.grow(2 * costOf(c.ProtoReflect().Descriptor(), b, 0, new(parts)))
	}
	return memory, err
}

// configure completes the configuration and warms the model up. After an error the caller retires
// the version.
func (v *version) configure(ctx context.Context, sess *onward.Session, dir string, s *Server) (err error) {
	o := &s.opts
	in, out, err := complete(v.config, v.model, sess, o)
	if err != nil {
		return err
	}
	v.inputs, v.outputs = newSpecs(in...), newSpecs(out...)
	if err := checkWarmup(v.config, v.inputs); err != nil {
		return err
	}
	for _, a := range sess.Outputs() {
		if !carried(a) {
			s.log.Warn("an output is left out of responses: the protocol carries tensors only", "model", v.model,
				"version", v.number, "output", shorten(a.Name), "type", shorten(a.Type))
		}
	}
	if err := readLabels(v.config, v.outputs, dir, v.memory); err != nil {
		return err
	}
	if v.sequences, err = newSequences(v.config, v.model, dir, sess, s); err != nil {
		return err
	}
	v.policy = policyOf(v.config, o)
	v.scheduler = newScheduler(v.policy, sess)
	v.scheduler.gate, v.scheduler.server = s.gate, s
	return v.warmAll(ctx)
}

// warmAll runs the warm-up samples of the configuration.
func (v *version) warmAll(ctx context.Context) error {
	for _, w := range v.config.ModelWarmup {
		if err := v.warm(ctx, w); err != nil {
			return fmt.Errorf("warm-up %q: %w", w.Name, err)
		}
	}
	return nil
}

// checkWarmup checks the warm-up samples of a configuration.
func checkWarmup(c *inference.ModelConfig, in specs) error {
	for _, w := range c.ModelWarmup {
		for name, x := range w.Inputs {
			s := in.byName[name]
			switch {
			case s == nil:
				return fmt.Errorf("model_warmup %q has input %q, which the model lacks", w.Name, name)
			case x.DataType != configType(s.dtype):
				return fmt.Errorf("model_warmup %q: input %q has data_type %s, but the model has %s", w.Name, name,
					x.DataType, configType(s.dtype))
			case !x.GetZeroData() && !x.GetRandomData():
				return fmt.Errorf("model_warmup %q: input %q has neither zero_data nor random_data", w.Name, name)
			case x.GetRandomData() && s.dtype == tensor.TypeString:
				return fmt.Errorf("model_warmup %q: input %q is of strings, want zero_data", w.Name, name)
			}
		}
		if w.Count > 1000 {
			return fmt.Errorf("model_warmup %q has count %d, want at most 1000", w.Name, w.Count)
		}
	}
	return nil
}

// warm runs the model on a sample, so that the first request finds plans and memory ready.
func (v *version) warm(ctx context.Context, w *inference.ModelWarmup) error {
	r := &request{model: v.model}
	if v.stateful() { // each run is a sequence of its own
		r.params = map[string]any{"sequence_id": uint64(1), "sequence_start": true, "sequence_end": true}
	}
	memory := &reservation{s: v.scheduler.server}
	defer memory.release()
	for name, x := range w.Inputs {
		shape := x.Dims
		if v.config.MaxBatchSize > 0 {
			shape = append([]int64{int64(max(w.BatchSize, 1))}, shape...)
		}
		dims, n, err := checkShape(shape)
		if err != nil {
			return fmt.Errorf("input %q: %w", name, err)
		}
		dtype := fromConfigType(x.DataType)
		if n > maxSample {
			return fmt.Errorf("input %q has %d elements, want at most %d", name, n, maxSample)
		}
		if err := memory.grow(int64(n) * elementSize(dtype)); err != nil {
			return fmt.Errorf("input %q: %w", name, err)
		}
		t, err := tensor.Zeros(dtype, dims...)
		if err != nil {
			return fmt.Errorf("input %q: %w", name, err)
		}
		if x.GetRandomData() {
			fill(t)
		}
		r.inputs = append(r.inputs, namedTensor{name, t})
	}
	for range max(w.Count, 1) {
		resp, _, err := v.infer(ctx, r)
		if err != nil {
			return err
		}
		resp.release()
	}
	return nil
}

// fill writes random elements: bytes for integers, 0 or 1 for bools, 0 to 1 for floating-point
// types.
func fill(t *tensor.Tensor) {
	r := rand.New(rand.NewPCG(1, 2))
	b := t.Bytes()
	switch t.DType() {
	case tensor.TypeBool:
		for i := range b {
			b[i] = byte(r.IntN(2))
		}
	case tensor.TypeFloat32:
		for i, x := 0, tensor.MustData[float32](t); i < len(x); i++ {
			x[i] = r.Float32()
		}
	case tensor.TypeFloat64:
		for i, x := 0, tensor.MustData[float64](t); i < len(x); i++ {
			x[i] = r.Float64()
		}
	case tensor.TypeFloat16:
		for i, x := 0, tensor.MustData[tensor.Float16](t); i < len(x); i++ {
			x[i] = tensor.NewFloat16(r.Float32())
		}
	case tensor.TypeBFloat16:
		for i, x := 0, tensor.MustData[tensor.BFloat16](t); i < len(x); i++ {
			x[i] = tensor.NewBFloat16(r.Float32())
		}
	default:
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
	}
}

// metadata returns the metadata of a model, as of this version.
func (v *version) metadata(versions []int64) *inference.ModelMetadataResponse {
	m := &inference.ModelMetadataResponse{Name: v.model, Platform: v.config.Platform}
	for _, n := range versions {
		m.Versions = append(m.Versions, strconv.FormatInt(n, 10))
	}
	list := func(specs []*spec) (l []*inference.ModelMetadataResponse_TensorMetadata) {
		for _, s := range specs {
			dims := s.dims
			if s.anyRank {
				dims = []int64{-1}
			}
			l = append(l, &inference.ModelMetadataResponse_TensorMetadata{Name: s.name, Datatype: datatypeName(s.dtype),
				Shape: dims})
		}
		return l
	}
	m.Inputs, m.Outputs = list(v.inputs.list), list(v.outputs.list)
	return m
}

// maxBatchSizes bounds the sizes of batches that have statistics of their own: the first ones.
const maxBatchSizes = 1024

// stats counts the requests of a version. Times are in nanoseconds.
type stats struct {
	mu       sync.Mutex
	last     time.Time
	requests uint64 // inferences: the sum of the batch sizes
	runs     uint64
	success  duration
	fail     duration
	queue    duration
	input    duration
	infer    duration
	output   duration
	batches  map[int]*batchStats
}

type duration struct{ count, ns uint64 }

func (d *duration) add(t time.Duration) {
	d.count++
	d.ns += uint64(max(t, 0))
}

func (d duration) proto() *inference.StatisticDuration {
	return &inference.StatisticDuration{Count: d.count, Ns: d.ns}
}

type batchStats struct{ input, infer, output duration }

// record counts a request. j is nil if the request did not run.
func (s *stats) record(r *request, j *job, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.fail.add(now.Sub(r.received))
		return
	}
	s.last = now
	s.requests += uint64(j.size)
	s.runs += uint64(j.executions)
	s.success.add(now.Sub(r.received))
	s.queue.add(j.started.Sub(j.queued))
	s.input.add(j.inputDone.Sub(j.started))
	s.infer.add(j.inferDone.Sub(j.inputDone))
	s.output.add(j.finished.Sub(j.inferDone))
	if j.executions > 0 {
		b := s.batches[j.batch]
		if b == nil && len(s.batches) == maxBatchSizes {
			return
		}
		if b == nil {
			b = new(batchStats)
			if s.batches == nil {
				s.batches = map[int]*batchStats{}
			}
			s.batches[j.batch] = b
		}
		b.input.add(j.inputDone.Sub(j.started))
		b.infer.add(j.inferDone.Sub(j.inputDone))
		b.output.add(j.finished.Sub(j.inferDone))
	}
}

func (v *version) statistics() *inference.ModelStatistics {
	s := &v.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &inference.ModelStatistics{Name: v.model, Version: strconv.FormatInt(v.number, 10), InferenceCount: s.requests,
		ExecutionCount: s.runs,
		InferenceStats: &inference.InferStatistics{Success: s.success.proto(), Fail: s.fail.proto(),
			Queue: s.queue.proto(), ComputeInput: s.input.proto(),
			ComputeInfer: s.infer.proto(), ComputeOutput: s.output.proto(), CacheHit: duration{}.proto(),
			CacheMiss: duration{}.proto()}}
	if !s.last.IsZero() {
		m.LastInference = uint64(s.last.UnixMilli())
	}
	var sizes []int
	for n := range s.batches {
		sizes = append(sizes, n)
	}
	sort.Ints(sizes)
	for _, n := range sizes {
		b := s.batches[n]
		m.BatchStats = append(m.BatchStats,
			&inference.InferBatchStatistics{BatchSize: uint64(n), ComputeInput: b.input.proto(),
				ComputeInfer: b.infer.proto(), ComputeOutput: b.output.proto()})
	}
	return m
}
