package tables

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/onward-ml/onward"
)

// running is the state of a job.
type running struct {
	*Job
	sources []source
	files   []inputFile
	pieces  [][]span
	columns []int
	scorer  *Scorer

	target  string // Out without links
	out     *partial
	journal *journal
	enc     encoder
	done    []piece // by an interrupted job
	counts  Counts
	first   []RowError
	buffer  *bufio.Writer // of standard output, or nil
}

// start opens the output.
func (r *running) start() error {
	if r.Out == "" {
		r.buffer = bufio.NewWriterSize(r.Stdout, 1<<16)
		var err error
		r.enc, err = streamEncoder(r.To, r.buffer, r.scorer.Schema(), true)
		return err
	}
	f := r.To
	if f == "" {
		var err error
		if f, err = FormatOf(r.Out); err != nil {
			return err
		}
	}
	job, err := r.describe(f)
	if err != nil {
		return err
	}
	if r.target, err = resolve(r.Out); err != nil {
		return err
	}
	var keep []fs.FileInfo
	for i := range r.files {
		info, err := r.sources[i].stat()
		if err != nil {
			return err
		}
		keep = append(keep, info)
	}
	if r.out, r.journal, r.done, err = startFile(r.target, job, r.Resume, keep); err != nil {
		return err
	}
	if len(r.done) > len(r.pieces) {
		return fmt.Errorf("%s has %d pieces, and the job %d: start over without resuming", journalPath(r.target),
			len(r.done), len(r.pieces))
	}
	for _, p := range r.done {
		r.counts.add(p.Counts)
		r.reject(p.First)
	}
	if r.enc, err = newEncoder(f, r.out, r.scorer.Schema(), r.done); err != nil {
		return fmt.Errorf("%s: %w", partialPath(r.target), err)
	}
	return nil
}

// describe returns all that determines the bytes of the result.
func (r *running) describe(f Format) (string, error) {
	d := struct {
		Version, Model, Provider string
		Files                    []inputFile
		From, To                 Format
		Shard, Shards, Rows      int
		Options                  Options
	}{onward.BuildInfo(), r.Model, r.Session.Provider(), r.files, r.From, f, r.Shard, r.Shards,
		r.scorer.rows, r.Job.Options}
	b, err := json.Marshal(d)
	return string(b), err
}

// run reads, scores and writes at the same time.
func (r *running) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	read, scored := make(chan work, 4), make(chan work, 4)
	g.Go(func() (err error) {
		defer close(read)
		defer damaged(&err)
		return r.read(ctx, read)
	})
	g.Go(func() error {
		defer close(scored)
		for w := range read {
			if !w.end {
				if err := r.score(ctx, &w); err != nil {
					return err
				}
			}
			if err := send(ctx, scored, w); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() (err error) {
		defer damaged(&err)
		return r.write(ctx, scored)
	})
	return g.Wait()
}

func send(ctx context.Context, to chan<- work, w work) error {
	select {
	case to <- w:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read reads the pieces that are not done and makes batches of them.
func (r *running) read(ctx context.Context, to chan<- work) error {
	bytes := int64(0)
	for i, spans := range r.pieces {
		for _, s := range spans {
			bytes += s.bytes
		}
		if i < len(r.done) {
			continue
		}
		b := &batcher{rows: r.scorer.rows, emit: func(w work) error {
			w.done = bytes
			return send(ctx, to, w)
		}}
		for _, s := range spans {
			if err := r.sources[s.source].read(ctx, s, r.columns, b.add); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return fmt.Errorf("%s: %w", r.name(s.source), err)
			}
		}
		if err := b.flush(); err != nil {
			return err
		}
		if err := send(ctx, to, work{end: true, done: bytes}); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) name(i int) string {
	if len(r.files) == 0 {
		return "standard input"
	}
	return r.files[i].Path
}

// unchanged returns an error if an input file has changed since it was opened: the rows that were
// read may be of neither version.
func (r *running) unchanged() error {
	for i, f := range r.files {
		info, err := r.sources[i].stat()
		if err != nil {
			return err
		}
		if newInputFile(f.Path, info) != f {
			return fmt.Errorf("%s has changed while it was read", f.Path)
		}
	}
	return nil
}

// batcher cuts chunks into batches of rows.
type batcher struct {
	rows    int
	pending []chunk
	n       int   // rows
	bytes   int64 // about
	emit    func(work) error
}

func (b *batcher) add(c chunk) error {
	if c.rec.NumRows() == 0 {
		return nil
	}
	b.pending = append(b.pending, c)
	b.n += int(c.rec.NumRows())
	b.bytes += max(sizeOf(c.rec), recordBytes(c.rec)) // views share bytes
	for b.n >= b.rows {
		if err := b.take(b.rows); err != nil {
			return err
		}
	}
	if b.bytes > batchBytes { // the columns that are not bound may be large
		return b.flush()
	}
	return nil
}

func (b *batcher) flush() error {
	if b.n == 0 {
		return nil
	}
	return b.take(b.n)
}

// take emits the next rows.
func (b *batcher) take(rows int) error {
	var parts []arrow.RecordBatch
	w := work{}
	at := 0
	for at < rows {
		c := &b.pending[0]
		n := int(c.rec.NumRows())
		k := min(n, rows-at)
		parts = append(parts, c.rec.NewSlice(0, int64(k)))
		w.places = append(w.places, placed{at, c.place})
		if c.reasons != nil {
			if w.reasons == nil {
				w.reasons = make([]string, rows)
			}
			copy(w.reasons[at:], c.reasons[:k])
			c.reasons = c.reasons[k:]
		}
		at += k
		if k == n {
			b.pending = b.pending[1:]
			continue
		}
		c.rec = c.rec.NewSlice(int64(k), int64(n))
		if c.place.lines != nil {
			c.place.lines = c.place.lines[k:]
		}
		c.place.first += int64(k)
	}
	b.bytes -= int64(float64(b.bytes) * float64(rows) / float64(b.n))
	b.n -= rows
	w.rec = parts[0]
	if len(parts) > 1 {
		columns := make([]arrow.Array, w.rec.NumCols())
		for i := range columns {
			list := make([]arrow.Array, len(parts))
			for k, p := range parts {
				list[k] = p.Column(i)
			}
			var err error
			if columns[i], err = array.Concatenate(list, memory.DefaultAllocator); err != nil {
				return fmt.Errorf("column %s: %w", w.rec.ColumnName(i), err)
			}
		}
		w.rec = array.NewRecordBatch(parts[0].Schema(), columns, int64(rows))
	}
	return b.emit(w)
}

// score replaces the rows of a batch by the scored ones.
func (r *running) score(ctx context.Context, w *work) error {
	n := w.rec.NumRows()
	// Files of one job may differ in the metadata of their columns.
	in := array.NewRecordBatch(r.scorer.source, w.rec.Columns(), n)
	res, rejected, err := r.scorer.score(ctx, in, w.reasons)
	var row *RowError
	if errors.As(err, &row) {
		row.Where = where(w.places, int(row.Row))
		return row
	}
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%s and %d rows after it: %w", where(w.places, 0), n-1, err)
		}
		return err
	}
	w.rec = res
	w.counts = Counts{Rows: n, Scored: n - int64(len(rejected))}
	if r.scorer.opts.OnError == Null {
		w.counts.Nulled = int64(len(rejected))
	} else {
		w.counts.Skipped = int64(len(rejected))
	}
	for _, e := range rejected[:min(len(rejected), MaxRejected)] {
		e.Where = where(w.places, int(e.Row))
		w.first = append(w.first, e)
	}
	return nil
}

// write writes the batches and ends the pieces.
func (r *running) write(ctx context.Context, from <-chan work) error {
	total := int64(0)
	known, rows := true, int64(0)
	for _, p := range r.pieces {
		for _, s := range p {
			total += s.bytes
			known = known && s.rows >= 0
			rows += s.rows
		}
	}
	var p piece
	doneRows, doneBytes := int64(0), int64(0) // at the end of the last piece
	for w := range from {
		if w.end {
			if err := r.endPiece(&p); err != nil {
				return err
			}
			doneRows, doneBytes = r.counts.Rows, w.done
			continue
		}
		if err := r.enc.write(ctx, w.rec); err != nil {
			return err
		}
		if r.buffer != nil {
			if err := r.flush(); err != nil {
				return err
			}
		}
		p.Counts.add(w.counts)
		p.First = append(p.First, w.first[:min(len(w.first), MaxRejected-min(MaxRejected, len(p.First)))]...)
		r.counts.add(w.counts)
		r.reject(w.first)
		if r.Progress != nil {
			t := Progress{Rows: r.counts.Rows}
			if known {
				t.Total = rows
			} else if doneBytes > 0 && total > 0 {
				t.Total = max(t.Rows, int64(float64(doneRows)*float64(total)/float64(doneBytes)))
			}
			r.Progress(t)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// flush hands a batch to the reader of standard output.
func (r *running) flush() error {
	if _, err := r.enc.endPiece(); err != nil {
		return err
	}
	return r.buffer.Flush()
}

func (r *running) endPiece(p *piece) error {
	state, err := r.enc.endPiece()
	if err != nil || r.out == nil {
		return err
	}
	p.State, p.End, p.CRC = state, r.out.size, r.out.crc
	r.out.crc = 0
	err = r.journal.append(*p)
	*p = piece{}
	return err
}

// reject reports the first rejected rows.
func (r *running) reject(list []RowError) {
	for _, e := range list {
		if len(r.first) < MaxRejected && r.Rejected != nil {
			r.first = append(r.first, e)
			r.Rejected(e)
		}
	}
}

// finish ends the output. After an error the file beside the result stays if it has whole
// pieces, so that the job can be resumed.
func (r *running) finish(failed error) error {
	if failed == nil {
		if err := r.unchanged(); err != nil {
			if r.journal != nil {
				r.journal.pieces = 0 // of no use
			}
			return errors.Join(err, r.finish(err))
		}
		err := r.enc.close()
		if err == nil && r.buffer != nil {
			err = r.buffer.Flush()
		}
		if err == nil && r.out != nil {
			err = finish(r.target, r.out, r.journal)
		}
		return err
	}
	if r.out == nil {
		return nil
	}
	defer r.out.f.Close() // with its lock
	r.journal.f.Close()
	if r.journal.pieces > 0 || !sameFile(r.out.f, partialPath(r.target)) {
		return nil
	}
	if runtime.GOOS == "windows" {
		r.out.f.Close()
	}
	return errors.Join(os.Remove(r.journal.path), os.Remove(partialPath(r.target)))
}
