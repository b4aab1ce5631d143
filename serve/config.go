package serve

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/regular"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

const (
	maxConfigSize = 1 << 20
	smallConfig   = 4 << 10
	configCost    = 100 // bytes of memory for a byte of a configuration in JSON
	maxLabelsSize = 16 << 20
	labelCost     = 32 // bytes of memory of a label besides its text
	maxPriorities = 100
	maxInstances  = 1024
	maxSample     = 1 << 28            // elements of a warm-up input or an initial state
	maxSequences  = 1 << 16            // sequences of a model in progress
	maxSteps      = 256                // of an ensemble
	maxNested     = 16                 // ensembles that contain each other
	platform      = "onnxruntime_onnx" // Triton's name of the format, by which clients know it
)

var unknownField = regexp.MustCompile(`unknown field:? "?([^\s"]+?)"?$`)

// parseConfig parses a config.pbtxt.
func parseConfig(text []byte) (*inference.ModelConfig, error) {
	c := new(inference.ModelConfig)
	return c, configError(prototext.Unmarshal(text, c))
}

// parseConfigJSON parses the configuration of a request to load a model.
func parseConfigJSON(text []byte) (*inference.ModelConfig, error) {
	c := new(inference.ModelConfig)
	return c, configError(protojson.Unmarshal(text, c))
}

func configError(err error) error {
	if err == nil {
		return nil
	}
	// The library's messages hold a space that varies between builds.
	msg := strings.ReplaceAll(strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:")), "\u00a0", " ")
	if m := unknownField.FindStringSubmatch(msg); m != nil {
		return fmt.Errorf("configuration field %q is unknown or not supported: %s", m[1], msg)
	}
	return fmt.Errorf("configuration: %s", msg)
}

// spec describes an input or output as requests see it.
type spec struct {
	name     string
	dtype    tensor.DType
	dims     []int64 // with the batch dimension; −1: any size
	anyRank  bool    // dims is unknown
	optional bool
	labels   []string
}

// GetName returns the name, as the messages of a configuration do.
func (s *spec) GetName() string { return s.name }

// specs are the inputs or the outputs of a model: in its order, and by name. There can be many.
type specs struct {
	list   []*spec
	byName map[string]*spec
}

func newSpecs(list ...*spec) specs { return specs{list, byName(list)} }

// byName returns the elements of a list by their names.
func byName[T interface{ GetName() string }](l []T) map[string]T {
	m := make(map[string]T, len(l))
	for _, x := range l {
		m[x.GetName()] = x
	}
	return m
}

// carried reports whether the protocol has the type of a value: maps and sequences are not.
func carried(a onward.NodeArg) bool {
	return a.ElementType().Kind == tensor.KindTensor && datatypeName(a.ElementType().Elem) != ""
}

// complete fills in what a configuration leaves out from the model and checks the rest. It
// returns the inputs and the outputs that the protocol can carry.
func complete(c *inference.ModelConfig, name string, sess *onward.Session,
	defaults *Options) (in, out []*spec, err error) {
	if err := checkConfig(c, name); err != nil {
		return nil, nil, err
	}
	given, givenOut := byName(c.Input), byName(c.Output)
	required, optional, results := sess.Inputs(), sess.OverridableInitializers(), sess.Outputs()
	inner, innerOut := sequenceValues(c, givenOut)
	required = slices.DeleteFunc(required, func(a onward.NodeArg) bool { return inner[a.Name] })
	optional = slices.DeleteFunc(optional, func(a onward.NodeArg) bool { return inner[a.Name] })
	results = slices.DeleteFunc(results, func(a onward.NodeArg) bool { return innerOut[a.Name] })
	if c.MaxBatchSize == 0 && c.DynamicBatching == nil && c.SequenceBatching == nil && len(c.Input) == 0 &&
		defaults.MaxBatchSize > 1 && batchable(required, results) && len(optional) == 0 {
		c.MaxBatchSize = int32(defaults.MaxBatchSize)
		c.DynamicBatching = &inference.ModelDynamicBatching{}
	}
	batch := c.MaxBatchSize > 0
	for i, a := range append(slices.Clone(required), optional...) {
		s, err := specOf("input", a, batch)
		if err != nil {
			return nil, nil, err
		}
		s.optional = i >= len(required)
		x := given[s.name]
		if x == nil {
			x = &inference.ModelInput{Name: s.name, Optional: s.optional}
			c.Input = append(c.Input, x)
		}
		delete(given, s.name)
		switch {
		case x.AllowRaggedBatch:
			return nil, nil,
				fmt.Errorf("input %q has allow_ragged_batch: ragged batches are not supported; pad the input or turn "+
					"dynamic_batching off", s.name)
		case x.Optional && !s.optional:
			return nil, nil,
				fmt.Errorf("input %q is optional in the configuration, but has no default in the model", s.name)
		}
		x.Optional = s.optional
		if x.DataType, x.Dims, err = s.merge("input", x.DataType, x.Dims, batch); err != nil {
			return nil, nil, err
		}
		if x.Format != inference.ModelInput_FORMAT_NONE && len(x.Dims) != 3 {
			return nil, nil,
				fmt.Errorf("input %q has format %s, which takes 3 dims, and has %d", s.name, x.Format, len(x.Dims))
		}
		in = append(in, s)
	}
	for _, x := range c.Input {
		if given[x.Name] != nil {
			return nil, nil,
				fmt.Errorf("the configuration has input %q, which the model lacks; it has %s", x.Name, names(in))
		}
	}
	for _, a := range results {
		x := givenOut[a.Name]
		s, err := specOf("output", a, batch)
		if err != nil {
			if x == nil && !carried(a) {
				continue // it is not asked for
			}
			return nil, nil, err
		}
		if x == nil {
			x = &inference.ModelOutput{Name: s.name}
			c.Output = append(c.Output, x)
		}
		delete(givenOut, a.Name)
		if x.DataType, x.Dims, err = s.merge("output", x.DataType, x.Dims, batch); err != nil {
			return nil, nil, err
		}
		out = append(out, s)
	}
	for _, x := range c.Output {
		if givenOut[x.Name] != nil {
			return nil, nil,
				fmt.Errorf("the configuration has output %q, which the model lacks; it has %s", x.Name, names(out))
		}
	}
	if len(out) == 0 {
		return nil, nil,
			fmt.Errorf("the model has no output that the protocol can carry, which are tensors of 1 to 8 bytes per " +
				"element, and strings")
	}
	c.Name, c.Platform = name, platform
	if c.Backend == "" {
		c.Backend = "onnxruntime"
	}
	if c.VersionPolicy == nil {
		c.VersionPolicy = &inference.ModelVersionPolicy{
			PolicyChoice: &inference.ModelVersionPolicy_Latest_{
				Latest: &inference.ModelVersionPolicy_Latest{NumVersions: 1}}}
	}
	if len(c.InstanceGroup) == 0 {
		n := int32(1)
		if c.DynamicBatching == nil && (c.SequenceBatching == nil || c.MaxBatchSize == 0) {
			n = int32(min(runtime.GOMAXPROCS(0), maxInstances))
		}
		if defaults.Instances > 0 {
			n = int32(defaults.Instances)
		}
		c.InstanceGroup = []*inference.ModelInstanceGroup{{Name: name + "_0",
			Kind: inference.ModelInstanceGroup_KIND_CPU, Count: n}}
	}
	if c.DefaultModelFilename == "" {
		c.DefaultModelFilename = "model.onnx"
	}
	return in, out, nil
}

// batchable reports whether dimension 0 of all inputs and outputs is the same symbolic one.
func batchable(in, out []onward.NodeArg) bool {
	symbol := ""
	for _, a := range append(slices.Clone(in), out...) {
		if a.ElementType().Kind != tensor.KindTensor || len(a.Shape) == 0 || a.Shape[0].Value >= 0 ||
			a.Shape[0].Param == "" {
			return false
		}
		if symbol != "" && a.Shape[0].Param != symbol {
			return false
		}
		symbol = a.Shape[0].Param
	}
	return symbol != ""
}

// specOf returns the description of an input or output of the model.
func specOf(kind string, a onward.NodeArg, batch bool) (*spec, error) {
	t := a.ElementType()
	if t.Kind != tensor.KindTensor || datatypeName(t.Elem) == "" {
		return nil, fmt.Errorf("%s %s is %s, which the protocol cannot carry", kind, quote(a.Name), shorten(a.Type))
	}
	s := &spec{name: a.Name, dtype: t.Elem, anyRank: a.Shape == nil}
	for _, d := range a.Shape {
		s.dims = append(s.dims, max(d.Value, -1))
	}
	if batch && !s.anyRank && (len(s.dims) == 0 || s.dims[0] >= 0) {
		return nil, fmt.Errorf("max_batch_size is set, but %s %s has shape %v: want a symbolic dimension 0",
			kind, quote(a.Name), s.dims)
	}
	return s, nil
}

// merge checks type and dims of a configuration, completes them, and narrows the shape to them.
func (s *spec) merge(kind string, t inference.DataType, dims []int64, batch bool) (inference.DataType, []int64, error) {
	want := configType(s.dtype)
	if t != inference.DataType_TYPE_INVALID && t != want {
		return t, dims, fmt.Errorf("%s %q has data_type %s, but the model has %s", kind, s.name, t, want)
	}
	own := s.dims
	if batch && len(own) > 0 {
		own = own[1:]
	}
	switch {
	case len(dims) == 0:
		return want, slices.Clone(own), nil
	case slices.ContainsFunc(dims, func(d int64) bool { return d < -1 }):
		return t, dims, fmt.Errorf("%s %q has dims %v: want −1 or more", kind, s.name, dims)
	case s.anyRank:
		s.anyRank = false
		s.dims = slices.Clone(dims)
		if batch {
			s.dims = append([]int64{-1}, s.dims...)
		}
		return want, dims, nil
	}
	ok := len(dims) == len(own)
	for i := range min(len(dims), len(own)) {
		ok = ok && (own[i] < 0 || own[i] == dims[i])
	}
	if !ok {
		return t, dims, fmt.Errorf("%s %q has dims %v, but the model has %v", kind, s.name, dims, own)
	}
	copy(s.dims[len(s.dims)-len(own):], dims)
	return want, dims, nil
}

// checkConfig checks the fields that do not depend on the model.
func checkConfig(c *inference.ModelConfig, name string) error {
	switch {
	case c.Name != "" && c.Name != name:
		return fmt.Errorf("the configuration has name %q, but the folder is %q", c.Name, name)
	case c.Platform != "" && c.Platform != platform && c.Platform != ensemblePlatform:
		return fmt.Errorf("platform %q is not supported, want %q or %q", c.Platform, platform, ensemblePlatform)
	case c.Backend != "" && c.Backend != "onnxruntime" && c.Backend != "onward":
		return fmt.Errorf("backend %q is not supported, want \"onnxruntime\" or \"onward\"", c.Backend)
	case c.MaxBatchSize < 0:
		return fmt.Errorf("max_batch_size must be non-negative, got %d", c.MaxBatchSize)
	case c.DefaultModelFilename != "" && checkName(c.DefaultModelFilename) != nil:
		return fmt.Errorf("default_model_filename %q must be a plain file name", c.DefaultModelFilename)
	}
	if err := unique("input", c.Input); err != nil {
		return err
	}
	if err := unique("output", c.Output); err != nil {
		return err
	}
	total := int64(0)
	for i, g := range c.InstanceGroup {
		if g.Kind != inference.ModelInstanceGroup_KIND_AUTO && g.Kind != inference.ModelInstanceGroup_KIND_CPU {
			return fmt.Errorf(
				"instance_group has kind %s, want KIND_CPU; parameters { key: \"provider\" } selects another device",
				g.Kind)
		}
		if g.Count < 0 {
			return fmt.Errorf("instance_group has count %d, want at least 1", g.Count)
		}
		g.Count, g.Kind = max(g.Count, 1), inference.ModelInstanceGroup_KIND_CPU
		if g.Name == "" {
			g.Name = fmt.Sprintf("%s_%d", name, i)
		}
		total += int64(g.Count)
	}
	if total > maxInstances {
		return fmt.Errorf("instance_group has %d instances, want at most %d", total, maxInstances)
	}
	for key, p := range c.Parameters {
		var err error
		switch key {
		case "provider":
			if driver.Lookup(p.StringValue) == nil {
				err = fmt.Errorf("unknown provider, want one of %s", strings.Join(onward.Providers(), ", "))
			}
		case "intra_op_thread_count":
			if n, e := strconv.Atoi(p.StringValue); e != nil || n < 0 {
				err = fmt.Errorf("want a number of threads, 0 for all cores")
			}
		default:
			err = fmt.Errorf("unknown parameter, want provider or intra_op_thread_count")
		}
		if err != nil {
			return fmt.Errorf("parameter %q is %q: %w", key, p.StringValue, err)
		}
	}
	if l := c.VersionPolicy.GetLatest(); l != nil && l.NumVersions == 0 {
		return fmt.Errorf("version_policy latest has num_versions 0, want at least 1")
	}
	if s := c.VersionPolicy.GetSpecific(); s != nil && len(s.Versions) == 0 {
		return fmt.Errorf("version_policy specific has no versions")
	}
	if err := checkEnsemble(c); err != nil {
		return err
	}
	if err := checkSequences(c); err != nil {
		return err
	}
	return checkBatching(c)
}

func unique[T interface{ GetName() string }](kind string, args []T) error {
	seen := map[string]bool{}
	for _, a := range args {
		if seen[a.GetName()] {
			return fmt.Errorf("the configuration has %s %q twice", kind, a.GetName())
		}
		seen[a.GetName()] = true
	}
	return nil
}

func checkBatching(c *inference.ModelConfig) error {
	b := c.DynamicBatching
	if b == nil {
		return nil
	}
	if c.MaxBatchSize == 0 {
		return fmt.Errorf("dynamic_batching needs a max_batch_size above 0")
	}
	if err := checkQueue(b.PreferredBatchSize, b.MaxQueueDelayMicroseconds, c.MaxBatchSize); err != nil {
		return err
	}
	if b.PriorityLevels > maxPriorities {
		return fmt.Errorf("priority_levels is %d, want at most %d", b.PriorityLevels, maxPriorities)
	}
	levels := max(b.PriorityLevels, 1)
	if d := b.DefaultPriorityLevel; b.PriorityLevels > 0 && d < 1 || d > levels {
		return fmt.Errorf("default_priority_level is %d, want 1 to %d: priority_levels is %d", d, levels,
			b.PriorityLevels)
	}
	for l := range b.PriorityQueuePolicy {
		if l < 1 || l > b.PriorityLevels {
			return fmt.Errorf("priority_queue_policy has level %d, want 1 to priority_levels %d", l, b.PriorityLevels)
		}
	}
	return nil
}

// checkQueue checks the fields of dynamic_batching and of sequence_batching's strategies.
func checkQueue(preferred []int32, delay uint64, maxBatch int32) error {
	for _, n := range preferred {
		if n < 1 || n > maxBatch {
			return fmt.Errorf("preferred_batch_size is %d, want 1 to max_batch_size %d", n, maxBatch)
		}
	}
	if delay > uint64(time.Hour/time.Microsecond) {
		return fmt.Errorf("max_queue_delay_microseconds is %d, want at most an hour", delay)
	}
	return nil
}

// policyOf returns the scheduler's policy for a completed configuration.
func policyOf(c *inference.ModelConfig, o *Options) schedulePolicy {
	p := schedulePolicy{levels: make([]queuePolicy, 1)}
	for _, g := range c.InstanceGroup {
		p.instances += int(g.Count)
	}
	queue := func(q *inference.ModelQueuePolicy) queuePolicy {
		r := queuePolicy{timeout: microseconds(q.GetDefaultTimeoutMicroseconds()),
			override: q.GetAllowTimeoutOverride(),
			delay:    q.GetTimeoutAction() == inference.ModelQueuePolicy_DELAY, max: int(q.GetMaxQueueSize())}
		if r.max == 0 {
			r.max = o.MaxQueue
		}
		return r
	}
	batches := func(preferred []int32, delay uint64) {
		p.maxBatch = int(c.MaxBatchSize)
		p.delay = microseconds(delay)
		for _, n := range preferred {
			p.preferred = append(p.preferred, int(n))
		}
	}
	b := c.DynamicBatching
	if s := c.SequenceBatching; s != nil {
		o, d := s.GetOldest(), s.GetDirect()
		batches(o.GetPreferredBatchSize(), o.GetMaxQueueDelayMicroseconds())
		if u := d.GetMinimumSlotUtilization(); u > 0 { // without, the delay is ignored
			p.delay = microseconds(d.MaxQueueDelayMicroseconds)
			p.enough = int(math.Ceil(float64(u) * float64(c.MaxBatchSize)))
		}
	}
	if b != nil {
		batches(b.PreferredBatchSize, b.MaxQueueDelayMicroseconds)
		p.levels = make([]queuePolicy, max(b.PriorityLevels, 1))
		p.priority = int(max(b.DefaultPriorityLevel, 1)) - 1
	}
	for i := range p.levels {
		q := b.GetDefaultQueuePolicy()
		if own, ok := b.GetPriorityQueuePolicy()[uint64(i+1)]; ok {
			q = own
		}
		p.levels[i] = queue(q)
	}
	return p
}

// microseconds converts a time without overflow.
func microseconds(us uint64) time.Duration {
	return time.Duration(min(us, uint64(24*time.Hour/time.Microsecond))) * time.Microsecond
}

// names returns the names of inputs or outputs for an error: the first ones, shortened, and how
// many more there are.
func names(specs []*spec) string {
	var b strings.Builder
	for i, s := range specs {
		if b.Len() > 3*maxError/4 { // what is sent has room for the rest of the error
			fmt.Fprintf(&b, " and %d more", len(specs)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(s.name))
	}
	return b.String()
}

// readLabels reads the label files of the outputs from the model's folder.
func readLabels(c *inference.ModelConfig, out specs, dir string, memory *reservation) error {
	for _, x := range c.Output {
		if x.LabelFilename == "" {
			continue
		}
		if dir == "" || !filepath.IsLocal(x.LabelFilename) {
			return fmt.Errorf("label_filename %q of output %q must be in the model's folder", x.LabelFilename, x.Name)
		}
		labels, err := labelsIn(dir, x.LabelFilename, memory)
		if err != nil {
			return fmt.Errorf("labels of output %q: %w", x.Name, err)
		}
		out.byName[x.Name].labels = labels
	}
	return nil
}

func labelsIn(dir, name string, memory *reservation) ([]string, error) {
	data, err := readLocal(dir, name, func(size int64) error {
		if size > maxLabelsSize {
			return fmt.Errorf("%s has %d bytes, want at most %d", name, size, maxLabelsSize)
		}
		return memory.grow(2 * size) // the labels are copied
	})
	if err != nil {
		return nil, err
	}
	defer memory.shrink(int64(len(data)))
	n := bytes.Count(data, []byte("\n")) + 1
	if err := memory.grow(int64(n) * labelCost); err != nil {
		return nil, err
	}
	labels := make([]string, 0, n)
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		labels = append(labels, lines.Text())
	}
	return labels, lines.Err()
}

// readLocal reads a file in a model's folder, once reserve has agreed to its size in bytes. It
// refuses files outside the folder.
func readLocal(dir, name string, reserve func(size int64) error) ([]byte, error) {
	if dir == "" {
		return nil, errors.New("the model has no folder")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, info, err := regular.OpenIn(root, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := reserve(info.Size()); err != nil {
		return nil, err
	}
	data := alignedBytes(int(info.Size()))
	if n, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("%s ends after %d of its %d bytes: %w", name, n, len(data), err)
	}
	return data, nil
}

// checkName checks the name of a model or file: one element of a path.
func checkName(name string) error {
	switch {
	case name == "" || len(name) > 255:
		return fmt.Errorf("name has %d bytes, want 1 to 255", len(name))
	case name == "." || name == ".." || strings.ContainsAny(name, "/\\:\x00") || !filepath.IsLocal(name):
		return fmt.Errorf("name %q must not contain a path", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		return fmt.Errorf("name %q must not contain control characters", name)
	}
	return nil
}
