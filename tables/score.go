package tables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// A Scorer scores record batches of one schema. It is safe for concurrent use.
type Scorer struct {
	sess    Model
	opts    Options
	source  *arrow.Schema
	schema  *arrow.Schema
	inputs  []*input
	outputs []*output
	keep    []int // columns to copy
	rows    int   // per run
	fixed   bool  // the model takes exactly that many rows
	run     onward.RunOptions
	folder  *os.Root // of images, or nil
}

// NewScorer binds the columns of a schema to the inputs of a session. opts may be nil. If
// outputs are maps or of unknown rank, NewScorer runs the model on zeros to find the types
// of their columns.
func NewScorer(ctx context.Context, sess Model, schema *arrow.Schema, opts *Options) (*Scorer, error) {
	s := &Scorer{sess: sess, source: schema}
	if opts != nil {
		s.opts = *opts
	}
	switch s.opts.OnError {
	case "":
		s.opts.OnError = Fail
	case Fail, Null, Skip:
	default:
		return nil, fmt.Errorf("reaction to errors is %q, want fail, null or skip", s.opts.OnError)
	}
	if s.opts.Batch < 0 {
		return nil, fmt.Errorf("batch is %d rows, want at least 1", s.opts.Batch)
	}
	if s.opts.ErrorColumn == "" {
		s.opts.ErrorColumn = ErrorColumn
	}
	var err error
	if s.inputs, err = bind(sess, schema, &s.opts); err != nil {
		return nil, err
	}
	if s.rows, s.fixed, err = batchRows(s.inputs, s.opts.Batch); err != nil {
		return nil, err
	}
	for _, in := range s.inputs {
		if s.fixed {
			in.limitImages(s.rows)
		} else {
			in.limitImages(1)
		}
	}
	if s.opts.Images != "" {
		if s.folder, err = os.OpenRoot(s.opts.Images); err != nil {
			return nil, err
		}
	}
	if err = s.bindOutputs(ctx); err == nil {
		err = s.makeSchema()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the folder of images. It does not close the session.
func (s *Scorer) Close() error {
	if s.folder != nil {
		return s.folder.Close()
	}
	return nil
}

func (s *Scorer) bindOutputs(ctx context.Context) error {
	all := s.sess.Outputs()
	wanted := all
	if s.opts.Outputs != nil {
		wanted = nil
		for _, name := range s.opts.Outputs {
			i := slices.IndexFunc(all, func(a onward.NodeArg) bool { return a.Name == name })
			if i < 0 {
				return fmt.Errorf("the model has no output %q; it has %s", name, names(all))
			}
			wanted = append(wanted, all[i])
			s.run.Outputs = append(s.run.Outputs, name)
		}
	}
	var sample onward.Values
	rows := 1
	if slices.ContainsFunc(wanted, needsSample) {
		if s.fixed {
			rows = s.rows
		}
		var err error
		if sample, err = s.sample(ctx, rows); err != nil {
			return fmt.Errorf("a run on zeros, which finds the types of the outputs, fails: %w", err)
		}
	}
	for _, a := range wanted {
		o, err := newOutput(a, s.opts.Prefix, sample[a.Name], rows)
		if err != nil {
			return err
		}
		s.outputs = append(s.outputs, o)
	}
	return nil
}

// sample runs the model on zeros. Sizes that are not fixed are 1.
func (s *Scorer) sample(ctx context.Context, rows int) (onward.Values, error) {
	feed := onward.Values{}
	for _, in := range s.inputs {
		shape := slices.Clone(in.inner)
		if in.kind == scalars {
			shape = in.scalarShape()
		}
		for i, d := range shape {
			if d < 0 {
				shape[i] = 1
			}
		}
		t, err := tensor.Zeros(in.dtype, slices.Concat([]int{rows}, shape)...)
		if err != nil {
			return nil, err
		}
		feed[in.arg.Name] = t
	}
	return s.sess.Run(ctx, feed, &s.run)
}

// makeSchema lists the columns of the result.
func (s *Scorer) makeSchema() error {
	var list []arrow.Field
	if s.opts.Keep == nil {
		for i := range s.source.NumFields() {
			s.keep = append(s.keep, i)
		}
	}
	for _, name := range s.opts.Keep {
		at := s.source.FieldIndices(name)
		if len(at) != 1 {
			return fmt.Errorf("the table has %d columns %q to keep, want one; it has %s", len(at), name,
				fields(s.source))
		}
		s.keep = append(s.keep, at[0])
	}
	taken := map[string]bool{}
	for _, i := range s.keep {
		list = append(list, s.source.Field(i))
		taken[s.source.Field(i).Name] = true
	}
	added := make([]arrow.Field, 0, len(s.outputs)+1)
	for _, o := range s.outputs {
		added = append(added, o.field)
	}
	if s.opts.OnError == Null {
		added = append(added, arrow.Field{Name: s.opts.ErrorColumn, Type: arrow.BinaryTypes.String, Nullable: true})
	}
	for _, f := range added {
		if taken[f.Name] {
			return fmt.Errorf("the table has a column %q already: set a prefix for the outputs, another error "+
				"column, or the columns to keep", f.Name)
		}
		taken[f.Name] = true
	}
	list = append(list, added...)
	for _, f := range list {
		if !utf8.ValidString(f.Name) {
			return fmt.Errorf("the name of column %s is not valid UTF-8: rename it, or leave it out of the columns "+
				"to keep", quote(f.Name))
		}
		if name := badName(f.Type); name != "" {
			return fmt.Errorf("the name of field %s of column %s is not valid UTF-8: rename it, or leave the "+
				"column out of those to keep", quote(name), f.Name)
		}
	}
	meta := s.source.Metadata()
	s.schema = arrow.NewSchema(list, &meta)
	return nil
}

// badName returns a name of a field in a type that is not valid UTF-8, or "".
func badName(t arrow.DataType) string {
	if n, ok := t.(arrow.NestedType); ok {
		for _, f := range n.Fields() {
			if !utf8.ValidString(f.Name) {
				return f.Name
			}
			if name := badName(f.Type); name != "" {
				return name
			}
		}
	}
	return ""
}

// Schema returns the schema of the result: the columns that are kept, the outputs, and the
// error column if there is one.
func (s *Scorer) Schema() *arrow.Schema { return s.schema }

// Batch returns the number of rows per run.
func (s *Scorer) Batch() int { return s.rows }

// columns returns the columns of the source that the scorer reads.
func (s *Scorer) columns() []int {
	used := slices.Clone(s.keep)
	for _, in := range s.inputs {
		used = append(used, in.columns...)
	}
	slices.Sort(used)
	return slices.Compact(used)
}

// Score scores the rows of a record batch. It returns the result and the rows that were not
// scored. If OnError is Fail, the first of them is the error, of type *[RowError].
func (s *Scorer) Score(ctx context.Context, rec arrow.RecordBatch) (arrow.RecordBatch, []RowError, error) {
	return s.score(ctx, rec, nil)
}

// score is Score for rows of which some were rejected while they were read.
func (s *Scorer) score(ctx context.Context, rec arrow.RecordBatch,
	reasons []string) (res arrow.RecordBatch, rejected []RowError, err error) {
	defer damaged(&err)
	if !rec.Schema().Equal(s.source) {
		return nil, nil, fmt.Errorf("the columns are %s, want %s", rec.Schema(), s.source)
	}
	r := &scoring{Scorer: s, ctx: ctx, reasons: reasons, parts: make([][]arrow.Array, len(s.outputs))}
	if err := r.runAll(rec); err != nil {
		return nil, nil, err
	}
	n := int(rec.NumRows())
	for i, why := range r.reasons {
		if why != "" {
			rejected = append(rejected, RowError{Row: int64(i), Reason: why})
		}
	}
	if len(rejected) > 0 && s.opts.OnError == Fail {
		return nil, nil, &rejected[0]
	}
	columns := make([]arrow.Array, 0, s.schema.NumFields())
	for _, k := range s.keep {
		c := rec.Column(k)
		if len(rejected) > 0 && s.opts.OnError == Skip {
			c = take(memory.DefaultAllocator, c, positions(r.scored))
		}
		columns = append(columns, c)
	}
	for i, o := range s.outputs {
		c, err := join(r.parts[i], o.field.Type)
		if err != nil {
			return nil, nil, fmt.Errorf("output %s: %w", o.name, err)
		}
		if len(rejected) > 0 && s.opts.OnError == Null {
			c = take(memory.DefaultAllocator, c, inverse(r.scored, n))
		}
		columns = append(columns, c)
	}
	if s.opts.OnError == Null {
		columns = append(columns, reasonColumn(r.reasons, n))
	} else {
		n -= len(rejected)
	}
	return array.NewRecordBatch(s.schema, columns, int64(n)), rejected, nil
}

// scoring is the state of one call of Score.
type scoring struct {
	*Scorer
	ctx     context.Context
	reasons []string // per row, or nil
	values  []*values
	scored  []int           // rows
	parts   [][]arrow.Array // per output, the results of the runs
	n       int
}

func (r *scoring) bad(row int, reason string) {
	if r.reasons == nil {
		r.reasons = make([]string, r.n)
	}
	if r.reasons[row] == "" {
		r.reasons[row] = reason
	}
}

// runAll runs the rows of a record batch, in parts if their images are large.
func (r *scoring) runAll(rec arrow.RecordBatch) error {
	r.n = int(rec.NumRows())
	for at := int64(0); at < rec.NumRows(); {
		part := rec.NewSlice(at, rec.NumRows())
		end := at + r.imageRows(part)
		p := &scoring{Scorer: r.Scorer, ctx: r.ctx, parts: r.parts}
		if r.reasons != nil {
			p.reasons = r.reasons[at:end]
		}
		if err := p.runPart(part.NewSlice(0, end-at)); err != nil {
			return err
		}
		if p.reasons != nil && r.reasons == nil {
			r.reasons = make([]string, r.n)
		}
		if p.reasons != nil {
			copy(r.reasons[at:], p.reasons)
		}
		for _, row := range p.scored {
			r.scored = append(r.scored, row+int(at))
		}
		if r.opts.OnError == Fail && slices.ContainsFunc(p.reasons, func(why string) bool { return why != "" }) {
			return nil
		}
		at = end
	}
	return nil
}

func (r *scoring) runPart(rec arrow.RecordBatch) error {
	r.n = int(rec.NumRows())
	for _, in := range r.inputs {
		r.values = append(r.values, r.read(in, rec, r.bad))
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	rows := make([]int, 0, r.n)
	for i := range r.n {
		if r.reasons == nil || r.reasons[i] == "" {
			rows = append(rows, i)
		} else if r.opts.OnError == Fail {
			return nil
		}
	}
	// Rows of equal shapes run together.
	for len(rows) > 0 {
		k := 1
		for k < len(rows) && k < r.rows && r.alike(rows[0], rows[k]) {
			k++
		}
		if err := r.runRows(rows[:k]); err != nil {
			return err
		}
		rows = rows[k:]
	}
	return nil
}

func (r *scoring) alike(a, b int) bool {
	for _, v := range r.values {
		if v.shapes != nil && !slices.Equal(v.shapes[a], v.shapes[b]) {
			return false
		}
	}
	return true
}

// errLayout wraps errors that every row would cause.
type errLayout struct{ error }

// runRows runs rows of equal shapes. If the run fails, the halves run on their own, so that
// only the rows remain for which the model fails.
func (r *scoring) runRows(rows []int) error {
	err := r.runOnce(rows)
	var layout errLayout
	switch {
	case err == nil:
		return nil
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	case errors.As(err, &layout):
		return layout.error
	case len(rows) == 1:
		r.bad(rows[0], err.Error())
		return nil
	}
	half := len(rows) / 2
	if err := r.runRows(rows[:half]); err != nil {
		return err
	}
	if r.opts.OnError == Fail && r.reasons != nil {
		return nil
	}
	return r.runRows(rows[half:])
}

func (r *scoring) runOnce(rows []int) error {
	pad := 0
	if r.fixed {
		pad = r.rows - len(rows)
	}
	feed := make(onward.Values, len(r.values))
	for _, v := range r.values {
		t, err := v.tensor(rows, pad)
		if err != nil {
			return err
		}
		feed[v.in.arg.Name] = t
	}
	res, err := r.sess.Run(r.ctx, feed, &r.run)
	if err != nil {
		return err
	}
	made := make([]arrow.Array, len(r.outputs))
	for i, o := range r.outputs {
		a, err := o.array(res[o.name], len(rows), len(rows)+pad, func(k int, why string) { r.bad(rows[k], why) })
		if err != nil {
			return errLayout{err}
		}
		made[i] = a
	}
	scored := rows
	// An output may have rejected rows: drop the other outputs of these.
	if r.reasons != nil && slices.ContainsFunc(rows, func(row int) bool { return r.reasons[row] != "" }) {
		var at []int
		scored = nil
		for k, row := range rows {
			if r.reasons[row] == "" {
				at, scored = append(at, k), append(scored, row)
			}
		}
		for i, a := range made {
			made[i] = take(memory.DefaultAllocator, a, positions(at))
		}
	}
	for i, a := range made {
		r.parts[i] = append(r.parts[i], a)
	}
	r.scored = append(r.scored, scored...)
	return nil
}

// join concatenates the parts of a column.
func join(parts []arrow.Array, t arrow.DataType) (arrow.Array, error) {
	switch len(parts) {
	case 0:
		b := array.NewBuilder(memory.DefaultAllocator, t)
		return b.NewArray(), nil
	case 1:
		return parts[0], nil
	}
	return array.Concatenate(parts, memory.DefaultAllocator)
}

// inverse selects for each of n rows its result among those of the scored ones, or null.
func inverse(scored []int, n int) (s selection) {
	k := 0
	for i := range n {
		if k < len(scored) && scored[k] == i {
			s.add(k, 1)
			k++
		} else {
			s.add(-1, 1)
		}
	}
	return s
}

func reasonColumn(reasons []string, n int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	if reasons == nil {
		b.AppendNulls(n)
	}
	for _, why := range reasons {
		if why == "" {
			b.AppendNull()
		} else {
			b.Append(strings.ToValidUTF8(why, "\ufffd")) // it may name columns and files
		}
	}
	return b.NewArray()
}
