package tables

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const textRows = 4096 // decoded at a time, at most

// csvDecoder decodes CSV with a header (RFC 4180). Columns are strings, so that they are
// written as they were read.
type csvDecoder struct{ types *arrow.Schema }

func newCSV() decoder { return &csvDecoder{} }

func (*csvDecoder) quotes() bool { return true }

func (d *csvDecoder) open(head []byte) (*arrow.Schema, int, error) {
	skip := len(head) - len(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))) // byte order mark
	r := csv.NewReader(bytes.NewReader(head[skip:]))
	names, err := r.Read()
	if err == io.EOF {
		return nil, 0, errors.New("the header is missing")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("header: %w", err)
	}
	if len(names) > maxFields {
		return nil, 0, fmt.Errorf("the header has %d columns, want at most %d", len(names), maxFields)
	}
	var list []arrow.Field
	for _, n := range names {
		list = append(list, arrow.Field{Name: strings.Clone(n), Type: arrow.BinaryTypes.String, Nullable: true})
	}
	if n := skip + int(r.InputOffset()); n == textHead && head[n-1] != '\n' {
		return nil, 0, fmt.Errorf("the header is longer than %d bytes", textHead)
	}
	d.types = arrow.NewSchema(list, nil)
	return d.types, skip + int(r.InputOffset()), nil
}

func (d *csvDecoder) decode(in io.Reader, line int64, columns []int,
	yield func(arrow.RecordBatch, []string, []int64) error) error {
	limit := &recordLimit{Reader: &quotedReturns{Reader: in}}
	r := csv.NewReader(limit)
	r.ReuseRecord = true
	r.FieldsPerRecord = -1
	schema := projectSchema(d.types, columns)
	b := newRows(schema, yield)
	for {
		limit.begin, limit.commas = r.InputOffset(), 0
		rec, err := r.Read()
		var pe *csv.ParseError
		if limit.reached {
			at := 1
			if errors.As(err, &pe) {
				at = pe.StartLine
			} else if err == nil {
				at, _ = r.FieldPos(0)
			}
			if limit.commas > maxFields {
				return fmt.Errorf("line %d: a record begins that has more than %d fields", line+int64(at), maxFields)
			}
			return fmt.Errorf("line %d: a record begins that is %w", line+int64(at), errLong(true))
		}
		if err == io.EOF {
			return b.flush()
		}
		if errors.As(err, &pe) {
			return fmt.Errorf("line %d, column %d: %w", line+int64(pe.Line), pe.Column, pe.Err)
		}
		if err != nil {
			return err
		}
		at, _ := r.FieldPos(0)
		why := ""
		for k, c := range columns {
			f := b.builder.Field(k).(*array.StringBuilder)
			switch {
			case c >= len(rec):
				f.AppendNull()
			case !utf8.ValidString(rec[c]):
				f.AppendNull()
				why = fmt.Sprintf("column %s is not valid UTF-8: %s", d.types.Field(c).Name, quote(rec[c]))
			default:
				f.Append(rec[c])
				b.bytes += len(rec[c])
			}
		}
		if len(rec) != d.types.NumFields() {
			why = fmt.Sprintf("the record has %d fields, want %d", len(rec), d.types.NumFields())
			if len(rec) > d.types.NumFields() {
				why += "; left over: " + quote(strings.Join(rec[d.types.NumFields():], ","))
			}
		}
		if err := b.end(line+int64(at), why); err != nil {
			return err
		}
	}
}

// recordLimit is the reader of a CSV decoder. It ends within a record that is longer than maxLine
// or has more than maxFields fields, which take up to 100 bytes each.
type recordLimit struct {
	io.Reader
	n, begin int64 // bytes read, and those before the record
	commas   int   // between fields, in what was read since the record began
	quoted   bool  // the next byte is between quotes
	reached  bool
}

func (l *recordLimit) Read(p []byte) (int, error) {
	if l.n-l.begin > int64(maxLine) || l.commas > maxFields {
		l.reached = true
		return 0, io.EOF
	}
	n, err := l.Reader.Read(p)
	l.n += int64(n)
	for rest, more := p[:n], true; more; l.quoted = l.quoted != more {
		var part []byte
		part, rest, more = bytes.Cut(rest, []byte{'"'})
		if !l.quoted {
			l.commas += bytes.Count(part, []byte{','})
		}
	}
	return n, err
}

// quotedReturns doubles the carriage returns before line breaks in quotes, of which [csv.Reader]
// removes one.
type quotedReturns struct {
	io.Reader
	in     [4 << 10]byte
	out    []byte // not yet returned
	err    error  // after out
	quoted bool   // the next byte is between quotes
	last   byte   // that was read
}

func (q *quotedReturns) Read(p []byte) (int, error) {
	if len(q.out) == 0 {
		if q.err != nil {
			return 0, q.err
		}
		var n int
		n, q.err = q.Reader.Read(q.in[:])
		q.out = q.doubled(q.in[:n])
	}
	n := copy(p, q.out)
	q.out = q.out[n:]
	return n, nil
}

func (q *quotedReturns) doubled(in []byte) []byte {
	quotes := bytes.Count(in, []byte{'"'})
	if quotes == 0 && !q.quoted || len(in) == 0 || q.last != '\r' && !bytes.Contains(in, []byte("\r\n")) {
		if q.quoted = q.quoted != (quotes%2 == 1); len(in) > 0 {
			q.last = in[len(in)-1]
		}
		return in
	}
	out := make([]byte, 0, 2*len(in))
	for _, c := range in {
		if c == '"' {
			q.quoted = !q.quoted
		}
		if c == '\n' && q.last == '\r' && q.quoted {
			out = append(out, '\r')
		}
		out, q.last = append(out, c), c
	}
	return out
}

// rows collects rows to record batches.
type rows struct {
	builder *array.RecordBuilder
	reasons []string
	lines   []int64
	bad     bool
	bytes   int
	yield   func(arrow.RecordBatch, []string, []int64) error
}

func newRows(s *arrow.Schema, yield func(arrow.RecordBatch, []string, []int64) error) *rows {
	return &rows{builder: array.NewRecordBuilder(memory.DefaultAllocator, s), yield: yield}
}

// end ends a row, whose columns have been appended.
func (r *rows) end(line int64, why string) error {
	r.lines, r.reasons = append(r.lines, line), append(r.reasons, why)
	r.bad = r.bad || why != ""
	r.bytes += 8 * r.builder.Schema().NumFields() // absent values take memory too
	if len(r.lines) == textRows || r.bytes > 4<<20 {
		return r.flush()
	}
	return nil
}

func (r *rows) flush() error {
	if len(r.lines) == 0 {
		return nil
	}
	rec, reasons, lines := r.builder.NewRecordBatch(), r.reasons, r.lines
	if !r.bad {
		reasons = nil
	}
	r.reasons, r.lines, r.bad, r.bytes = nil, nil, false, 0
	return r.yield(rec, reasons, lines)
}
