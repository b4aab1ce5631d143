package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// request is an inference request of either protocol.
type request struct {
	model, version, id string
	params             map[string]any // of bool, int64, uint64, float64 or string
	inputs             []namedTensor
	shared             []sharedInput // inputs that are read from shared memory before the run
	outputs            []wanted      // empty: all
	received           time.Time
	step               bool         // whether the request is a step of an ensemble
	memory             *reservation // for what is derived from the outputs; nil has no limit
}

type namedTensor struct {
	name  string
	value *tensor.Tensor
}

// wanted is an output that a request asks for.
type wanted struct {
	name    string
	classes int   // classification: the number of classes; 0: none
	binary  bool  // REST: whether the output is wanted in binary form
	into    *area // of shared memory; nil: in the response

	binarySet bool // whether the request says so for this output
}

// response holds the results of a request, in the order of the wanted outputs.
type response struct {
	model, version, id string
	outputs            []result
	kept               []*outputs // memory of the outputs, until release
}

type result struct {
	name   string
	value  *tensor.Tensor
	binary bool
	into   *area // where the data is; nil: in the response
}

// integer returns a parameter as a non-negative integer, 0 if it is not set.
func integer(params map[string]any, key string) (uint64, error) {
	switch x := params[key].(type) {
	case nil:
		return 0, nil
	case uint64:
		return x, nil
	case int64:
		if x >= 0 {
			return uint64(x), nil
		}
	case string: // tritonclient sends a priority as a string
		if n, err := strconv.ParseUint(x, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("parameter %s is %s, want a non-negative integer", quote(key), shown(params[key]))
}

// prepare checks a request against the model and returns it as a job.
func (v *version) prepare(ctx context.Context, r *request) (*job, []wanted, error) {
	j := &job{ctx: ctx, feed: make(onward.Values, len(r.inputs)), size: 1}
	if err := v.setParams(j, r.params); err != nil {
		return nil, nil, err
	}
	batched := v.config.MaxBatchSize > 0
	var key strings.Builder
	for i, in := range r.inputs {
		if j.feed[in.name] != nil {
			return nil, nil, fmt.Errorf("input %q is given twice", in.name)
		}
		s := v.inputs.byName[in.name]
		if s == nil {
			return nil, nil, fmt.Errorf("unexpected inference input '%s' for model '%s', whose inputs are %s",
				shorten(in.name), v.model, names(v.inputs.list))
		}
		if err := s.check(in.value, v.model); err != nil {
			return nil, nil, err
		}
		if batched {
			n := 0
			if in.value.Rank() > 0 { // the model's rank can be unknown
				n = in.value.Dim(0)
			}
			if n < 1 || n > int(v.config.MaxBatchSize) {
				return nil, nil, fmt.Errorf("input %q has batch size %d, want 1 to max_batch_size %d of model '%s'",
					in.name, n, v.config.MaxBatchSize, v.model)
			}
			if i > 0 && n != j.size {
				return nil, nil,
					fmt.Errorf("input %q has batch size %d, but input %q has %d", in.name, n, r.inputs[0].name, j.size)
			}
			j.size = n
		}
		j.feed[in.name] = in.value
	}
	var missing []*spec
	for _, s := range v.inputs.list {
		t, ok := j.feed[s.name].(*tensor.Tensor)
		if !ok && !s.optional {
			missing = append(missing, s)
		}
		if ok && batched {
			fmt.Fprintf(&key, "%q%v", s.name, t.Shape()[1:])
		}
	}
	if len(missing) > 0 {
		return nil, nil, fmt.Errorf("expected %d inputs but got %d inputs for model '%s': missing %s",
			len(v.inputs.list), len(r.inputs), v.model, names(missing))
	}
	j.key = key.String()
	outputs := r.outputs
	if len(outputs) == 0 {
		for _, s := range v.outputs.list {
			outputs = append(outputs, wanted{name: s.name})
		}
	}
	twice := map[string]bool{}
	for _, o := range outputs {
		if v.outputs.byName[o.name] == nil {
			return nil, nil, fmt.Errorf("unexpected inference output '%s' for model '%s', whose outputs are %s",
				shorten(o.name), v.model, names(v.outputs.list))
		}
		if twice[o.name] {
			return nil, nil, fmt.Errorf("output %q is wanted twice", o.name)
		}
		twice[o.name] = true
		j.outputs = append(j.outputs, o.name)
	}
	return j, outputs, nil
}

// setParams reads the parameters of a request. Unknown ones are refused, because they could
// change the meaning of the request.
func (v *version) setParams(j *job, params map[string]any) error {
	for key, x := range params {
		switch key {
		case "priority", "timeout":
		case "binary_data_output", "triton_enable_empty_final_response":
			if _, ok := x.(bool); !ok {
				return fmt.Errorf("parameter %s is %s, want a bool", quote(key), shown(x))
			}
		case "sequence_id", "sequence_start", "sequence_end":
			if !v.stateful() && x != int64(0) && x != uint64(0) && x != false && x != "" {
				return fmt.Errorf("parameter %q: model '%s' is stateless; sequence_batching in its configuration "+
					"makes it stateful", key, v.model)
			}
		default:
			return fmt.Errorf("unknown parameter %s", quote(key))
		}
	}
	priority, err := integer(params, "priority")
	if err != nil {
		return err
	}
	// As in Triton, a level that the model lacks stands for the default.
	j.level = v.policy.priority
	if priority > 0 && priority <= uint64(len(v.policy.levels)) {
		j.level = int(priority) - 1
	}
	us, err := integer(params, "timeout")
	j.timeout = microseconds(us)
	return err
}

// check checks type, rank and fixed dimensions of an input.
func (s *spec) check(t *tensor.Tensor, model string) error {
	if t.DType() != s.dtype {
		return fmt.Errorf("inference input '%s' data-type is '%s', but model '%s' expects '%s'", s.name,
			datatypeName(t.DType()), model, datatypeName(s.dtype))
	}
	if s.anyRank {
		return nil
	}
	ok := len(s.dims) == t.Rank()
	for i := range min(len(s.dims), t.Rank()) {
		ok = ok && (s.dims[i] < 0 || s.dims[i] == int64(t.Dim(i)))
	}
	if !ok {
		return fmt.Errorf("unexpected shape for input '%s' for model '%s'. Expected %v, got %v", s.name, model,
			s.dims, t.Shape())
	}
	return nil
}

// infer runs a request.
func (s *Server) infer(ctx context.Context, r *request) (*response, error) {
	v, err := s.acquire(r.model, r.version)
	if err != nil {
		return nil, err
	}
	defer v.release()
	return s.inferVersion(ctx, v, r)
}

// undecoded counts a request that has failed before it was a request to a model, if that is loaded.
func (s *Server) undecoded(model, number string, received time.Time, err error) {
	v, e := s.acquire(model, number)
	if e != nil {
		return
	}
	defer v.release()
	r := &request{received: received}
	v.stats.record(r, nil, err)
	s.metrics.record(v, r, nil, err)
	s.errors.add(v.model, err)
}

// inferVersion runs a request on a version, and counts it.
func (s *Server) inferVersion(ctx context.Context, v *version, r *request) (*response, error) {
	ctx, end := s.trace(ctx, v, r)
	resp, j, err := s.inferShared(ctx, v, r)
	v.stats.record(r, j, err)
	s.metrics.record(v, r, j, err)
	end(j, err)
	if err != nil && !r.step { // the ensemble returns the error of a step
		s.errors.add(v.model, err)
	}
	return resp, err
}

// inferShared runs a request whose tensors can be in shared memory.
func (s *Server) inferShared(ctx context.Context, v *version, r *request) (*response, *job, error) {
	memory := reservation{s: s}
	defer memory.release()
	if len(r.shared) > 0 {
		if err := s.regions.load(r, s.opts.MaxBody, &memory); err != nil {
			return nil, nil, err
		}
	}
	resp, j, err := v.infer(ctx, r)
	if err == nil {
		if err = s.regions.store(resp, &memory); err != nil {
			resp.release()
		}
	}
	return resp, j, err
}

// infer runs a request. The caller releases the response.
func (v *version) infer(ctx context.Context, r *request) (resp *response, j *job, err error) {
	j, outputs, err := v.prepare(ctx, r)
	if err != nil {
		return nil, nil, &Error{InvalidArgument, err}
	}
	if err := v.submit(j, r.params); err != nil {
		return nil, nil, classify(err)
	}
	resp = &response{model: v.model, version: strconv.FormatInt(v.number, 10), id: r.id,
		outputs: make([]result, len(outputs)), kept: j.kept}
	defer func() {
		if err != nil {
			releaseAll(j.kept)
		}
	}()
	for i, o := range outputs {
		t, ok := j.out[o.name].(*tensor.Tensor)
		if !ok {
			return nil, j, errorf(Internal, "output %s is not a tensor", quote(o.name))
		}
		if o.classes > 0 {
			if t, err = v.classify(o, t, r.memory); err != nil {
				return nil, j, err
			}
		}
		resp.outputs[i] = result{o.name, t, o.binary, o.into}
	}
	j.finished = time.Now()
	return resp, j, nil
}

// submit runs a job, in its turn if it belongs to a sequence.
func (v *version) submit(j *job, params map[string]any) (err error) {
	if v.ensemble != nil {
		return v.ensemble.run(j, params)
	}
	if v.texts != nil {
		return v.runTensors(j)
	}
	if v.sequences == nil {
		return v.scheduler.submit(j)
	}
	m, err := memberOf(params)
	if err != nil {
		return &Error{InvalidArgument, err}
	}
	leave, err := v.sequences.enter(j, m)
	if err != nil {
		return err
	}
	err = errors.New("the run panicked")
	defer func() {
		if e := leave(err); err == nil && e != nil {
			releaseAll(j.kept)
			err = e
		}
	}()
	return v.scheduler.submit(j)
}

// classify returns the largest elements of an output as strings "value:index" or
// "value:index:label", for every item of the batch (Triton's classification extension).
func (v *version) classify(o wanted, t *tensor.Tensor, memory *reservation) (*tensor.Tensor, error) {
	if t.DType() == tensor.TypeString || t.DType() == tensor.TypeBool {
		return nil, errorf(InvalidArgument, "output %q is %s, which has no classification", o.name,
			datatypeName(t.DType()))
	}
	labels := v.outputs.byName[o.name].labels
	batch, shape := 1, []int{}
	if v.config.MaxBatchSize > 0 && t.Rank() > 0 {
		batch = t.Dim(0)
		shape = append(shape, batch)
	}
	width := 0
	if batch > 0 {
		width = t.Len() / batch
	}
	k := min(o.classes, width)
	// The text of a number is made twice, without and with what follows it.
	const longest32, longest64 = 40 + len(".000000:1234567890:"), 310 + len(".000000:1234567890:")
	text := longest32
	if t.DType() == tensor.TypeFloat64 {
		text = longest64
	}
	label := 0
	for _, l := range labels {
		label = max(label, len(l))
	}
	if err := memory.grow(8*int64(t.Len()+width) + int64(batch)*int64(k)*int64(16+2*(text+label))); err != nil {
		return nil, err
	}
	values, err := tensor.Float64s(t)
	if err != nil {
		return nil, errorf(InvalidArgument, "output %q: %w", o.name, err)
	}
	out := make([]string, 0, batch*k)
	order := make([]int, width)
	for b := range batch {
		row := values[b*width : (b+1)*width]
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { // cmp.Compare has NaN before all others, so here it is last
			return cmp.Or(cmp.Compare(row[b], row[a]), cmp.Compare(a, b))
		})
		for _, i := range order[:k] {
			text := strconv.FormatFloat(row[i], 'f', 6, 64)
			if t.DType().IsInteger() {
				text = strconv.FormatFloat(row[i], 'f', 0, 64)
			}
			text += ":" + strconv.Itoa(i)
			if i < len(labels) {
				text += ":" + labels[i]
			}
			out = append(out, text)
		}
	}
	return tensor.New(out, append(shape, k)...)
}
