package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// A Job scores a table. It reads, scores and writes at the same time, and holds a few batches
// in memory however large the table is.
type Job struct {
	// Session is the model: an *onward.Session, or a [TextModel].
	Session Model
	// Options configure the scoring.
	Options Options

	// In names files with tables of one schema, or folders of such files. Default: Stdin.
	In    []string
	Stdin io.Reader
	// From is the format of the input. Default: by the extension of each file; an Arrow
	// stream for Stdin.
	From Format
	// Out names the file to write. The rows are written to a file beside it, which replaces
	// Out at the end. Default: Stdout.
	Out    string
	Stdout io.Writer
	// To is the format of the output. Default: by the extension of Out; an Arrow stream for Stdout.
	To Format

	// Shard and Shards select a share of the input: files are split at row groups, record
	// batches or lines into Shards shares of similar size, of which Shard, from 0, is
	// scored. The shares in their order are the whole. Default: everything.
	Shard, Shards int
	// Resume continues the job that was interrupted while it wrote Out. The result has the
	// same bytes as that of a job without interruption.
	Resume bool
	// Model identifies the model, for Resume: an interrupted job is continued only with the
	// same model, options and input files.
	Model string

	// Progress is called after every batch.
	Progress func(Progress)
	// Rejected is called for the first rows that were not scored, at most [MaxRejected].
	Rejected func(RowError)
}

// MaxRejected is the largest number of rejected rows that a Job reports one by one.
const MaxRejected = 10

// Progress is the progress of a Job.
type Progress struct {
	Rows  int64 // scored or rejected
	Total int64 // estimated number of rows; 0 if unknown
}

// work is a batch on its way through a job.
type work struct {
	rec     arrow.RecordBatch
	reasons []string
	places  []placed
	counts  Counts
	done    int64 // bytes of the input before the end of this batch's piece
	end     bool  // of a piece; rec is nil
	first   []RowError
}

type placed struct {
	at int // row of the batch
	place
}

func where(p []placed, row int) string {
	i := len(p) - 1
	for i > 0 && p[i].at > row {
		i--
	}
	return p[i].of(row - p[i].at)
}

// Run scores the table. It returns the number of rows also if it fails.
func (j *Job) Run(ctx context.Context) (_ Counts, err error) {
	defer damaged(&err)
	if j.Shards < 0 || j.Shard < 0 || j.Shards > 0 && j.Shard >= j.Shards {
		return Counts{}, fmt.Errorf("shard is %d of %d, want one from 0 to %d", j.Shard, j.Shards, j.Shards-1)
	}
	if len(j.In) == 0 && (j.Shards > 1 || j.Resume) {
		return Counts{},
			errors.New("standard input can be read once and in order only: name files to use shards or to resume")
	}
	if j.Out == "" && j.Resume {
		return Counts{}, errors.New("standard output cannot be continued: name a file to resume")
	}
	sources, files, err := j.open()
	defer func() {
		for _, s := range sources {
			s.Close()
		}
	}()
	if err != nil {
		return Counts{}, err
	}
	pieces := j.pieces(sources)
	// Find the columns that are needed, then bind these.
	schema := sources[0].schema()
	all, err := NewScorer(ctx, j.Session, schema, &j.Options)
	if err != nil {
		return Counts{}, err
	}
	columns := all.columns()
	all.Close()
	scorer, err := NewScorer(ctx, j.Session, projectSchema(schema, columns), &j.Options)
	if err != nil {
		return Counts{}, err
	}
	defer scorer.Close()
	r := &running{Job: j, sources: sources, files: files, pieces: pieces, columns: columns, scorer: scorer}
	if err = r.start(); err == nil {
		err = r.run(ctx)
	}
	if e := r.finish(err); err == nil {
		err = e
	}
	return r.counts, err
}

// open opens the input.
func (j *Job) open() (sources []source, files []inputFile, err error) {
	floats := j.floats()
	if len(j.In) == 0 {
		s, err := openStream(j.Stdin, j.From, floats)
		if err != nil {
			return nil, nil, err
		}
		return []source{s}, nil, nil
	}
	var paths []string
	for _, path := range j.In {
		list, err := j.list(path)
		if err != nil {
			return sources, nil, err
		}
		paths = append(paths, list...)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return sources, nil, err
		}
		s, err := open(path, j.From, floats)
		if err != nil {
			return sources, nil, err
		}
		sources, files = append(sources, s), append(files, newInputFile(path, info))
		if !s.schema().Equal(sources[0].schema()) && !sameFields(s.schema(), sources[0].schema()) {
			return sources, nil,
				fmt.Errorf("%s has the columns %s, and %s has %s: tables of one job have equal columns", path,
					s.schema(), paths[0], sources[0].schema())
		}
	}
	if len(sources) == 0 {
		return nil, nil, fmt.Errorf("%s: no files with tables found", strings.Join(j.In, ", "))
	}
	return sources, files, nil
}

// inputFile identifies the contents of a file.
type inputFile struct {
	Path    string
	Size    int64
	ModTime int64
}

func newInputFile(path string, info fs.FileInfo) inputFile {
	return inputFile{path, info.Size(), info.ModTime().UnixNano()}
}

func sameFields(a, b *arrow.Schema) bool {
	return slices.EqualFunc(a.Fields(), b.Fields(), func(x, y arrow.Field) bool {
		return x.Name == y.Name && arrow.TypeEqual(x.Type, y.Type)
	})
}

// list returns the tables of a folder in the order of their names, or the file itself.
func (j *Job) list(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") { // _SUCCESS, .part.crc
			continue
		}
		if _, err := FormatOf(name); err == nil || j.From != "" {
			files = append(files, filepath.Join(path, name))
		}
	}
	return files, nil
}

// floats returns the columns that are bound to floating-point inputs.
func (j *Job) floats() (list []string) {
	bound := map[string][]string{}
	for _, b := range j.Options.Bind {
		bound[b.Input] = b.Columns
	}
	for _, a := range slices.Concat(j.Session.Inputs(), j.Session.OverridableInitializers()) {
		if !a.ElementType().Elem.IsFloat() {
			continue
		}
		if c := bound[a.Name]; c != nil {
			list = append(list, c...)
		} else {
			list = append(list, a.Name)
		}
	}
	return list
}

// pieces groups the spans of all sources, so that a piece has at least pieceBytes, and
// returns those of the shard.
func (j *Job) pieces(sources []source) [][]span {
	var all [][]span
	var current []span
	bytes := int64(0)
	for i, s := range sources {
		for _, sp := range s.spans() {
			sp.source = i
			current = append(current, sp)
			if bytes += sp.bytes; bytes >= pieceBytes {
				all, current, bytes = append(all, current), nil, 0
			}
		}
	}
	if len(current) > 0 {
		all = append(all, current)
	}
	if j.Shards > 1 {
		n := len(all)
		all = all[j.Shard*n/j.Shards : (j.Shard+1)*n/j.Shards]
	}
	return all
}
