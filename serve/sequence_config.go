package serve

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// initialStates is the folder of a model with the data files of initial states, as Triton has it.
const initialStates = "initial_state"

// sequenceValues returns the names of the model's inputs and outputs that belong to the server:
// controls and states. Requests do not see them. sent are the outputs of the configuration.
func sequenceValues(c *inference.ModelConfig, sent map[string]*inference.ModelOutput) (in, out map[string]bool) {
	in, out = map[string]bool{}, map[string]bool{}
	for _, x := range c.SequenceBatching.GetControlInput() {
		in[x.Name] = true
	}
	for _, x := range c.SequenceBatching.GetState() {
		in[x.InputName] = true
		if sent[x.OutputName] == nil { // an output of the configuration is sent to clients, too
			out[x.OutputName] = true
		}
	}
	return in, out
}

// newSequences completes a configuration of sequences from the model. dir is the model's folder,
// or "" for a plain file.
func newSequences(c *inference.ModelConfig, model, dir string, sess *onward.Session,
	server *Server) (s *sequences, err error) {
	b := c.SequenceBatching
	if b == nil {
		return nil, nil
	}
	if b.MaxSequenceIdleMicroseconds == 0 {
		b.MaxSequenceIdleMicroseconds = uint64(time.Second / time.Microsecond)
	}
	memory := &reservation{s: server}
	defer func() {
		if err != nil {
			memory.release()
		}
	}()
	s = &sequences{model: model, idle: microseconds(b.MaxSequenceIdleMicroseconds), live: map[any]*sequence{},
		server: server, memory: memory}
	n := 0
	for _, g := range c.InstanceGroup {
		n += int(g.Count)
	}
	if o := b.GetOldest(); o != nil {
		n *= int(o.MaxCandidateSequences)
	} else {
		n *= int(max(c.MaxBatchSize, 1))
	}
	s.slots = make(chan struct{}, min(n, maxSequences))
	inputs, outputs := map[string]onward.NodeArg{}, map[string]onward.NodeArg{}
	for _, a := range append(sess.Inputs(), sess.OverridableInitializers()...) {
		inputs[a.Name] = a
	}
	for _, a := range sess.Outputs() {
		outputs[a.Name] = a
	}
	for _, x := range b.ControlInput {
		y, err := completeControl(x, inputs, c.MaxBatchSize > 0)
		if err != nil {
			return nil, fmt.Errorf("control_input %q: %w", x.Name, err)
		}
		s.controls = append(s.controls, y)
	}
	for _, x := range b.State {
		y, err := completeState(x, inputs, outputs, c.MaxBatchSize > 0, dir, memory)
		if err != nil {
			return nil, fmt.Errorf("state %q: %w", x.InputName, err)
		}
		s.states = append(s.states, y)
	}
	return s, nil
}

// named returns the description of an input or output of the model.
func named(kind, name string, args map[string]onward.NodeArg, batch bool) (*spec, error) {
	a, ok := args[name]
	if !ok {
		return nil, fmt.Errorf("the model has no %s %q", kind, name)
	}
	return specOf(kind, a, batch)
}

// completeControl checks a control input against the model's input and returns its tensors.
func completeControl(x *inference.ModelSequenceBatching_ControlInput, inputs map[string]onward.NodeArg,
	batch bool) (c control, err error) {
	s, err := named("input", x.Name, inputs, batch)
	if err != nil {
		return c, err
	}
	c = control{name: x.Name, kind: x.Control[0].Kind, dtype: s.dtype, shape: []int{1}}
	if !s.anyRank {
		c.shape = c.shape[:0]
		for _, d := range s.dims {
			if d > 1 || d == 0 {
				return c, fmt.Errorf("the input has shape %v, want one element per sequence", s.dims)
			}
			c.shape = append(c.shape, 1)
		}
	}
	p := x.Control[0]
	var want tensor.DType
	if c.kind == inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID {
		if want = fromConfigType(p.DataType); p.DataType == inference.DataType_TYPE_INVALID {
			p.DataType, want = configType(s.dtype), s.dtype
		}
		if !slices.Contains([]tensor.DType{tensor.TypeUint64, tensor.TypeInt64, tensor.TypeUint32, tensor.TypeInt32,
			tensor.TypeString}, want) {
			return c, fmt.Errorf(
				"a correlation ID cannot have data_type %s, want an integer of 32 or 64 bits or TYPE_STRING",
				p.DataType)
		}
	} else {
		switch { // checkSequences has found exactly one
		case len(p.Int32FalseTrue) == 2:
			want = tensor.TypeInt32
			c.off, c.set, err = pair(p.Int32FalseTrue, c.shape)
		case len(p.Fp32FalseTrue) == 2:
			want = tensor.TypeFloat32
			c.off, c.set, err = pair(p.Fp32FalseTrue, c.shape)
		default:
			want = tensor.TypeBool
			c.off, c.set, err = pair(p.BoolFalseTrue, c.shape)
		}
	}
	if err == nil && want != s.dtype {
		err = fmt.Errorf("the control has type %s, but the model's input has %s", datatypeName(want),
			datatypeName(s.dtype))
	}
	return c, err
}

// pair returns the two values of a control as tensors.
func pair[T int32 | float32 | bool](falseTrue []T, shape []int) (off, set *tensor.Tensor, err error) {
	if off, err = tensor.New(falseTrue[:1], shape...); err == nil {
		set, err = tensor.New(falseTrue[1:], shape...)
	}
	return off, set, err
}

// completeState fills in type, dims and initial value of a state from the model.
func completeState(x *inference.ModelSequenceBatching_State, inputs, outputs map[string]onward.NodeArg,
	batch bool, dir string, memory *reservation) (y state, err error) {
	in, err := named("input", x.InputName, inputs, batch)
	if err != nil {
		return y, err
	}
	out, err := named("output", x.OutputName, outputs, batch)
	if err != nil {
		return y, err
	}
	if _, _, err := out.merge("output", x.DataType, x.Dims, batch); err != nil {
		return y, err
	}
	if x.DataType, x.Dims, err = in.merge("input", x.DataType, x.Dims, batch); err != nil {
		return y, err
	}
	if in.dtype != out.dtype {
		return y, fmt.Errorf("the input is %s, but output %q is %s", datatypeName(in.dtype), x.OutputName,
			datatypeName(out.dtype))
	}
	if in.anyRank {
		return y, fmt.Errorf("the rank of the input is unknown: the state needs dims")
	}
	shape := slices.Clone(in.dims)
	if batch {
		shape[0] = 1
	}
	initial := new(inference.ModelSequenceBatching_InitialState)
	if len(x.InitialState) == 1 {
		initial = x.InitialState[0]
	}
	if t := initial.DataType; t != inference.DataType_TYPE_INVALID && t != x.DataType {
		return y, fmt.Errorf("initial_state has data_type %s, but the state has %s", t, x.DataType)
	}
	if len(initial.Dims) > 0 {
		own := shape[len(shape)-len(x.Dims):]
		ok := len(initial.Dims) == len(own)
		for i := range min(len(initial.Dims), len(own)) {
			ok = ok && initial.Dims[i] >= 0 && (own[i] < 0 || own[i] == initial.Dims[i])
		}
		if !ok {
			return y, fmt.Errorf("initial_state has dims %v, want non-negative ones that fit %v of the state",
				initial.Dims, own)
		}
		copy(own, initial.Dims)
	}
	for i, d := range shape {
		if d < 0 {
			shape[i] = 1 // as in Triton
		}
	}
	dims, n, err := checkShape(shape)
	if err != nil {
		return y, fmt.Errorf("initial_state: %w", err)
	}
	if n > maxSample {
		return y, fmt.Errorf("initial_state has %d elements, want at most %d", n, maxSample)
	}
	if err := memory.grow(int64(n) * elementSize(in.dtype)); err != nil {
		return y, fmt.Errorf("initial_state: %w", err)
	}
	y = state{input: x.InputName, output: x.OutputName}
	if name := initial.GetDataFile(); name != "" {
		y.initial, err = initialData(dir, name, in.dtype, shape, memory)
	} else {
		y.initial, err = tensor.Zeros(in.dtype, dims...)
	}
	return y, err
}

// initialData reads a state from a file of the model's folder initial_state, as Triton does. The
// memory of the elements is reserved, without the content of strings.
func initialData(dir, name string, dtype tensor.DType, shape []int64, memory *reservation) (*tensor.Tensor, error) {
	dims, _, err := checkShape(shape)
	if err != nil {
		return nil, err
	}
	contents := int64(0) // of strings, in the file
	data, err := readLocal(dir, initialStates+"/"+name, func(size int64) error {
		if dtype == tensor.TypeString {
			if size > maxLabelsSize {
				return fmt.Errorf("it has %d bytes, want at most %d", size, maxLabelsSize)
			}
			contents = size
			return memory.grow(2 * size) // they are copied
		}
		if want, err := tensor.ByteLen(dtype, dims); err != nil || size != int64(want) {
			return cmp.Or(err, fmt.Errorf("it has %d bytes, but shape %v of %s takes %d", size, shape,
				datatypeName(dtype), want))
		}
		return nil
	})
	if err == nil {
		defer memory.shrink(contents)
		var t *tensor.Tensor
		if t, err = decodeRaw(dtype, shape, data); err == nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("initial_state data_file %q: %w", name, err)
}

// checkSequences checks the fields of sequence_batching that do not depend on the model.
func checkSequences(c *inference.ModelConfig) error {
	b := c.SequenceBatching
	if b == nil {
		return nil
	}
	if c.DynamicBatching != nil {
		return fmt.Errorf("both dynamic_batching and sequence_batching are set, want one")
	}
	if o := b.GetOldest(); o != nil {
		if o.MaxCandidateSequences < 1 || o.MaxCandidateSequences > maxSequences {
			return fmt.Errorf("sequence_batching oldest has max_candidate_sequences %d, want 1 to %d",
				o.MaxCandidateSequences, maxSequences)
		}
		if err := checkQueue(o.PreferredBatchSize, o.MaxQueueDelayMicroseconds, max(c.MaxBatchSize, 1)); err != nil {
			return err
		}
	}
	if d := b.GetDirect(); d != nil {
		if !(d.MinimumSlotUtilization >= 0 && d.MinimumSlotUtilization <= 1) {
			return fmt.Errorf("sequence_batching direct has minimum_slot_utilization %v, want 0 to 1",
				d.MinimumSlotUtilization)
		}
		if err := checkQueue(nil, d.MaxQueueDelayMicroseconds, 1); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	once := func(what, name string) error {
		if seen[what+name] {
			return fmt.Errorf("sequence_batching has %s %q twice", what, name)
		}
		seen[what+name] = true
		return nil
	}
	for _, x := range b.ControlInput {
		if err := once("input", x.Name); err != nil {
			return err
		}
		if len(x.Control) != 1 {
			return fmt.Errorf("control_input %q has %d controls, want 1", x.Name, len(x.Control))
		}
		p := x.Control[0]
		if err := once("control", p.Kind.String()); err != nil {
			return err
		}
		kinds, pairs := 0, 0
		for _, n := range []int{len(p.Int32FalseTrue), len(p.Fp32FalseTrue), len(p.BoolFalseTrue)} {
			if n > 0 {
				kinds++
			}
			if n == 2 {
				pairs++
			}
		}
		if p.Kind == inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID {
			if kinds > 0 {
				return fmt.Errorf(
					"control_input %q is a correlation ID, which has a data_type and no false_true values", x.Name)
			}
		} else if kinds != 1 || pairs != 1 {
			return fmt.Errorf(
				"control_input %q wants two values in one of int32_false_true, fp32_false_true and bool_false_true",
				x.Name)
		}
	}
	for _, x := range b.State {
		if err := once("input", x.InputName); err != nil {
			return err
		}
		if err := once("output", x.OutputName); err != nil {
			return err
		}
		if len(x.InitialState) > 1 {
			return fmt.Errorf("state %q has %d initial_state, want at most 1", x.InputName, len(x.InitialState))
		}
	}
	for _, x := range c.Input {
		if seen["input"+x.Name] {
			return fmt.Errorf("input %q is a control or a state of sequence_batching, which requests cannot set: "+
				"remove it from input", x.Name)
		}
	}
	return nil
}
