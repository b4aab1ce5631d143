package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// ensemblePlatform is Triton's name of the platform of ensembles.
const ensemblePlatform = "ensemble"

// ensemble runs the models of a directed acyclic graph on one request. Tensors go from one model
// to the next without copies.
type ensemble struct {
	s     *Server
	name  string
	steps []*ensembleStep // in an order in which they can run
}

type ensembleStep struct {
	number         int    // in the configuration, from 0
	model, version string // version "": the largest one
	in, out        map[string]string
	after          []*ensembleStep // those that read outputs of this one
}

// run runs the steps that the outputs of a job need. params are those of the request.
func (e *ensemble) run(j *job, params map[string]any) error {
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	r := &ensembleRun{e: e, ctx: ctx, params: params, values: map[string]*tensor.Tensor{},
		waits: map[*ensembleStep]int{}}
	for name, v := range j.feed {
		r.values[name] = v.(*tensor.Tensor)
	}
	needed := map[string]bool{}
	for _, name := range j.outputs {
		needed[name] = true
	}
	for _, s := range slices.Backward(e.steps) {
		for _, name := range s.out {
			if needed[name] {
				r.waits[s] = 0
			}
		}
		if _, ok := r.waits[s]; ok {
			for _, name := range s.in {
				needed[name] = true
			}
		}
	}
	r.needed = needed
	var first []*ensembleStep
	for _, s := range e.steps {
		for _, a := range s.after {
			if _, ok := r.waits[a]; ok {
				r.waits[a]++
			}
		}
	}
	for _, s := range e.steps {
		if n, ok := r.waits[s]; ok && n == 0 {
			first = append(first, s)
		}
	}
	j.queued = time.Now()
	j.started, j.inputDone = j.queued, j.queued
	r.runAll(first, cancel)
	r.wait.Wait()
	j.inferDone = time.Now()
	j.finished = j.inferDone
	j.executions, j.batch = 1, j.size
	if r.err != nil {
		releaseAll(r.kept)
		return r.err
	}
	j.kept = r.kept
	j.out = onward.Values{}
	for _, name := range j.outputs {
		j.out[name] = r.values[name]
	}
	return nil
}

// ensembleRun is the run of an ensemble for one request.
type ensembleRun struct {
	e      *ensemble
	ctx    context.Context
	params map[string]any
	needed map[string]bool // tensors that a step or the request reads
	wait   sync.WaitGroup

	mu     sync.Mutex
	values map[string]*tensor.Tensor
	kept   []*outputs            // memory of values
	waits  map[*ensembleStep]int // steps that must end before each step that runs
	err    error                 // of the first step that failed
}

// runAll runs steps and those that become ready thereby. A chain of steps stays in one goroutine,
// because waking another one takes as long as a small model.
func (r *ensembleRun) runAll(ready []*ensembleStep, cancel func()) {
	for len(ready) > 0 {
		for _, s := range ready[1:] {
			r.wait.Go(func() { r.runAll([]*ensembleStep{s}, cancel) })
		}
		s := ready[0]
		ready = nil
		err := r.step(s)
		r.mu.Lock()
		if err != nil && r.err == nil {
			r.err = err
			cancel()
		}
		if r.err == nil {
			for _, a := range s.after {
				if n, ok := r.waits[a]; ok {
					if r.waits[a] = n - 1; n == 1 {
						ready = append(ready, a)
					}
				}
			}
		}
		r.mu.Unlock()
	}
}

// step runs one step.
func (r *ensembleRun) step(s *ensembleStep) (err error) {
	defer func() {
		if p := recover(); p != nil { // in a goroutine of its own, it would end the server
			err = errorf(Internal, "the run panicked: %v", p)
		}
		if err != nil {
			err = &Error{classify(err).Code,
				fmt.Errorf("in ensemble '%s', step %d, model '%s': %w", r.e.name, s.number+1, s.model, err)}
		}
	}()
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	v, err := r.e.s.acquire(s.model, s.version)
	if err != nil {
		return &Error{Unavailable, err}
	}
	defer v.release()
	q := &request{model: s.model, version: s.version, params: r.params, received: time.Now(), step: true}
	if !v.stateful() {
		q.params = maps.Clone(r.params)
		maps.DeleteFunc(q.params, func(k string, _ any) bool { return strings.HasPrefix(k, "sequence_") })
	}
	r.mu.Lock()
	for input, name := range s.in {
		if t := r.values[name]; t != nil { // nil: an optional input that the request omits
			q.inputs = append(q.inputs, namedTensor{input, t})
		}
	}
	r.mu.Unlock()
	for output, name := range s.out {
		if r.needed[name] {
			q.outputs = append(q.outputs, wanted{name: output})
		}
	}
	resp, err := r.e.s.inferVersion(r.ctx, v, q)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, resp.kept...)
	for _, o := range resp.outputs {
		r.values[s.out[o.name]] = o.value
	}
	return nil
}

// stateful reports whether requests belong to sequences.
func (v *version) stateful() bool {
	return v.any(map[*version]bool{}, func(v *version) bool { return v.sequences != nil })
}

// any reports whether f holds for a version or, if it is an ensemble, for one of its models. Those
// in seen are left out: an ensemble can contain a model along exponentially many paths.
func (v *version) any(seen map[*version]bool, f func(*version) bool) bool {
	if seen[v] {
		return false
	}
	seen[v] = true
	if f(v) {
		return true
	}
	if v.ensemble == nil {
		return false
	}
	for _, x := range v.ensemble.steps {
		w, err := v.ensemble.s.acquire(x.model, x.version)
		if err != nil {
			continue
		}
		ok := w.any(seen, f)
		w.release()
		if ok {
			return true
		}
	}
	return false
}

// ready returns an error if a version is an ensemble one of whose models is not served.
func (s *Server) ready(v *version) (err error) {
	v.any(map[*version]bool{}, func(v *version) bool {
		if v.ensemble == nil {
			return false
		}
		for _, x := range v.ensemble.steps {
			w, e := s.acquire(x.model, x.version)
			if e != nil {
				err = errorf(Unavailable, "ensemble '%s': %w", v.model, e)
				return true
			}
			w.release()
		}
		return false
	})
	return err
}

// refers reports whether an ensemble contains a model, directly or in another ensemble.
func (v *version) refers(model string) bool {
	return v.any(map[*version]bool{}, func(v *version) bool {
		return v.ensemble != nil && slices.ContainsFunc(v.ensemble.steps,
			func(x *ensembleStep) bool { return x.model == model })
	})
}

// depth returns how many ensembles contain each other, 0 for other versions.
func (v *version) depth(seen map[*version]int) (n int) {
	if v.ensemble == nil {
		return 0
	}
	if n, ok := seen[v]; ok {
		return n
	}
	for _, x := range v.ensemble.steps {
		if w, err := v.ensemble.s.acquire(x.model, x.version); err == nil {
			n = max(n, w.depth(seen))
			w.release()
		}
	}
	seen[v] = n + 1
	return n + 1
}

// checkEnsemble checks the fields of an ensemble that do not depend on its models.
func checkEnsemble(c *inference.ModelConfig) error {
	e := c.EnsembleScheduling
	if e == nil {
		if c.Platform == ensemblePlatform {
			return errors.New("platform \"ensemble\" needs ensemble_scheduling")
		}
		return nil
	}
	switch {
	case c.Platform != "" && c.Platform != ensemblePlatform:
		return fmt.Errorf("platform is %q, but ensemble_scheduling is set, which has platform %q", c.Platform,
			ensemblePlatform)
	case c.Backend != "" || len(c.InstanceGroup) > 0 || c.DynamicBatching != nil || c.SequenceBatching != nil ||
		len(c.Parameters) > 0 || c.DefaultModelFilename != "":
		return errors.New("an ensemble has no backend, instance_group, dynamic_batching, sequence_batching, " +
			"parameters or default_model_filename: its models have them")
	case len(e.Step) == 0 || len(e.Step) > maxSteps:
		return fmt.Errorf("ensemble_scheduling has %d steps, want 1 to %d", len(e.Step), maxSteps)
	case len(c.Input) == 0 || len(c.Output) == 0:
		return fmt.Errorf("an ensemble needs input and output, got %d and %d", len(c.Input), len(c.Output))
	}
	for i, x := range e.Step {
		switch {
		case checkName(x.ModelName) != nil:
			return fmt.Errorf("step %d of the ensemble: model_%w", i+1, checkName(x.ModelName))
		case x.ModelVersion < -1:
			return fmt.Errorf(
				"step %d of the ensemble: model_version is %d, want −1 for the latest or a positive number",
				i+1, x.ModelVersion)
		}
	}
	return nil
}

// link is an input or output of a step, at one end of a tensor of the ensemble. step is nil for
// inputs of the ensemble.
type link struct {
	*spec
	step *ensembleStep
}

// openEnsemble checks an ensemble against its models, which are served.
func (s *Server) openEnsemble(ctx context.Context, name string, number int64, dir string,
	cfg *inference.ModelConfig) (opened *version, err error) {
	memory, err := s.configMemory(cfg)
	defer func() {
		if opened == nil {
			memory.release()
		}
	}()
	if err != nil {
		return nil, err
	}
	c := proto.Clone(cfg).(*inference.ModelConfig)
	v := &version{model: name, number: number, config: c, ensemble: &ensemble{s: s, name: name},
		memory: memory,
		policy: schedulePolicy{levels: make([]queuePolicy, 1)}}
	v.scheduler = newScheduler(v.policy, nil) // runs nothing: requests wait for the models
	v.scheduler.server = s
	producers, consumers := map[string]link{}, map[string][]link{}
	for i, x := range c.EnsembleScheduling.Step {
		step := &ensembleStep{number: i, model: x.ModelName, in: x.InputMap, out: x.OutputMap}
		if x.ModelVersion > 0 {
			step.version = strconv.FormatInt(x.ModelVersion, 10)
		}
		if err := s.connect(v, step, producers, consumers); err != nil {
			return nil, fmt.Errorf("step %d of the ensemble, model '%s': %w", i+1, x.ModelName, err)
		}
		v.ensemble.steps = append(v.ensemble.steps, step)
	}
	batch := c.MaxBatchSize > 0
	inputs := map[string]link{}
	var ins, outs []*spec
	for _, x := range c.Input {
		if p, ok := producers[x.Name]; ok {
			return nil, fmt.Errorf("input %q is also an output of step %d", x.Name, p.step.number+1)
		}
		if len(consumers[x.Name]) == 0 {
			return nil, fmt.Errorf("no step reads input %q", x.Name)
		}
		in, err := boundary("input", x.Name, consumers[x.Name][0].spec, batch)
		if err != nil {
			return nil, err
		}
		in.optional = x.Optional
		if x.DataType, x.Dims, err = in.merge("input", x.DataType, x.Dims, batch); err != nil {
			return nil, err
		}
		ins = append(ins, in)
		inputs[x.Name] = link{spec: in}
	}
	for _, name := range slices.Sorted(maps.Keys(consumers)) {
		p, ok := producers[name]
		if !ok {
			p, ok = inputs[name]
		}
		for _, q := range consumers[name] {
			switch {
			case !ok:
				return nil, fmt.Errorf(
					"step %d reads tensor %q, which is neither an input of the ensemble nor an output of a step",
					q.step.number+1, name)
			case p.optional && !q.optional:
				return nil, fmt.Errorf("input %q is optional, but not for step %d", name, q.step.number+1)
			}
			if err := fit(name, p, q); err != nil {
				return nil, err
			}
			if p.step != nil {
				p.step.after = append(p.step.after, q.step)
			}
		}
	}
	for _, x := range c.Output {
		p, ok := producers[x.Name]
		if !ok {
			return nil, fmt.Errorf("no step has output %q of the ensemble", x.Name)
		}
		out, err := boundary("output", x.Name, p.spec, batch)
		if err != nil {
			return nil, err
		}
		if x.DataType, x.Dims, err = out.merge("output", x.DataType, x.Dims, batch); err != nil {
			return nil, err
		}
		outs = append(outs, out)
	}
	v.inputs, v.outputs = newSpecs(ins...), newSpecs(outs...)
	if err := v.ensemble.sort(); err != nil {
		return nil, err
	}
	c.Name, c.Platform = name, ensemblePlatform
	if err := readLabels(c, v.outputs, dir, memory); err != nil {
		return nil, err
	}
	if err := checkWarmup(c, v.inputs); err != nil {
		return nil, err
	}
	if err := v.warmAll(ctx); err != nil {
		return nil, err
	}
	return v, nil
}

// boundary returns the spec of an input or output of an ensemble, copied from that of a step. batch
// requires that dimension 0 is variable.
func boundary(kind, name string, of *spec, batch bool) (*spec, error) {
	s := *of
	s.name, s.dims = name, slices.Clone(of.dims)
	if batch && !s.anyRank && (len(s.dims) == 0 || s.dims[0] >= 0) {
		return nil, fmt.Errorf("max_batch_size is set, but %s %q has shape %v: want a variable dimension 0",
			kind, name, s.dims)
	}
	return &s, nil
}

// connect checks the inputs and outputs of a step and adds them to the tensors of the ensemble.
func (s *Server) connect(e *version, step *ensembleStep, producers map[string]link, consumers map[string][]link) error {
	v, err := s.acquire(step.model, step.version)
	if err != nil {
		return err
	}
	defer v.release()
	if step.model == e.model || v.refers(e.model) {
		return fmt.Errorf("the ensemble contains itself")
	}
	if v.depth(map[*version]int{}) >= maxNested {
		return tooNested(e.model)
	}
	if m := v.config.MaxBatchSize; m != 0 && m < e.config.MaxBatchSize {
		return fmt.Errorf("max_batch_size of the ensemble is %d, but that of the model is %d", e.config.MaxBatchSize, m)
	}
	for _, name := range slices.Sorted(maps.Keys(step.in)) {
		in := v.inputs.byName[name]
		if in == nil {
			return fmt.Errorf("input_map has %q, which the model lacks; its inputs are %s", name, names(v.inputs.list))
		}
		consumers[step.in[name]] = append(consumers[step.in[name]], link{in, step})
	}
	for _, in := range v.inputs.list {
		if step.in[in.name] == "" && !in.optional {
			return fmt.Errorf("input %s of the model is not in input_map", quote(in.name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(step.out)) {
		out := v.outputs.byName[name]
		if out == nil {
			return fmt.Errorf("output_map has %q, which the model lacks; its outputs are %s", name,
				names(v.outputs.list))
		}
		if p, ok := producers[step.out[name]]; ok {
			return fmt.Errorf("tensor %q is already an output of step %d", step.out[name], p.step.number+1)
		}
		producers[step.out[name]] = link{out, step}
	}
	return nil
}

// fit returns an error if the type or shape of a tensor differs between the link that produces it
// and one that reads it. Variable dimensions fit every size.
func fit(name string, from, to link) error {
	source := "an input of the ensemble"
	if from.step != nil {
		source = fmt.Sprintf("an output of step %d", from.step.number+1)
	}
	if from.dtype != to.dtype {
		return fmt.Errorf("tensor %q is %s as %s, but %s as an input of step %d", name, datatypeName(from.dtype),
			source, datatypeName(to.dtype), to.step.number+1)
	}
	if from.anyRank || to.anyRank {
		return nil
	}
	ok := len(from.dims) == len(to.dims)
	for i := range min(len(from.dims), len(to.dims)) {
		ok = ok && (from.dims[i] < 0 || to.dims[i] < 0 || from.dims[i] == to.dims[i])
	}
	if !ok {
		return fmt.Errorf("tensor %q has shape %v as %s, but %v as an input of step %d", name, from.dims, source,
			to.dims, to.step.number+1)
	}
	return nil
}

// sort orders the steps so that each follows those whose outputs it reads.
func (e *ensemble) sort() error {
	waits := map[*ensembleStep]int{}
	for _, s := range e.steps {
		for _, a := range s.after {
			waits[a]++
		}
	}
	var order []*ensembleStep
	for len(order) < len(e.steps) {
		i := slices.IndexFunc(e.steps, func(s *ensembleStep) bool { return waits[s] == 0 })
		if i < 0 {
			var l []string
			for _, s := range e.steps {
				if waits[s] > 0 {
					l = append(l, fmt.Sprintf("%d (%s)", s.number+1, s.model))
				}
			}
			return fmt.Errorf("steps %s of the ensemble wait for each other", strings.Join(l, ", "))
		}
		s := e.steps[i]
		waits[s] = -1
		order = append(order, s)
		for _, a := range s.after {
			waits[a]--
		}
	}
	e.steps = order
	return nil
}
