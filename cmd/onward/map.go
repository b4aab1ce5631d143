//go:build map || (!core && !server)

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/cmd/onward/internal/cli"
	"github.com/onward-ml/onward/cmd/onward/internal/modelfile"
	"github.com/onward-ml/onward/cmd/onward/internal/progress"
	"github.com/onward-ml/onward/cmd/onward/internal/session"
	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/tables"
)

// mapJSON is the output of --json.
type mapJSON struct {
	Model string `json:"model"`
	tables.Counts
	Seconds float64 `json:"seconds"`
}

func init() { large = append(large, mapCommand) }

func mapCommand() *cobra.Command {
	var (
		own                session.ProviderOptions
		precision          onward.Precision
		job                tables.Job
		binds              []string
		onError, from, to  string
		keep, outputs      []string
		shard, provider    string
		threads            int
		mapWeights, asJSON bool
		column, task       string
		folder             tables.TextOptions
	)
	c := &cobra.Command{
		Use:   "map MODEL|FOLDER [IN...] [-o OUT]",
		Short: "Score the rows of a table",
		Long: `Score the rows of a table: columns become inputs of the model, and its outputs become
further columns. Without IN and -o, map reads an Arrow stream from standard input and
writes one to standard output, as worker processes of Spark, Ray and ClickHouse do.

IN and OUT are Parquet (.parquet), Arrow (.arrow), Arrow stream (.arrows), CSV (.csv) or
JSON lines (.jsonl) files. IN may be a folder of such files.

An input is bound to the column of its name, or with --bind to others:
  x=a,b,c      numeric columns side by side, for an input [rows,3]
  x=vector     a column of lists, for an input [rows,n] or of higher rank
  image=photo  a column of PNG, JPEG, GIF, WebP or JPEG 2000 files, or with --images of
               their names, for an input [rows,C,H,W] or [rows,H,W,C]

FOLDER is a model folder as Hugging Face has it. It reads the column of --text and adds
"embedding", a vector, or "label" and "score", or for --query "score".

A row cannot be scored if it has nulls or unsuitable values, or if the model fails for it:
  --on-error fail   stops
  --on-error null   writes null outputs, and the reason in the column "error"
  --on-error skip   omits the row

OUT is written to OUT.partial and renamed at the end. After an interruption the same
command with --resume continues.`,
		Example: `  onward map model.onnx rows.parquet -o scored.parquet --bind x=a,b,c
  onward map model.onnx part-*.csv -o scored.jsonl --on-error null
  onward map model.onnx table/ -o scored-$JOB_COMPLETION_INDEX.parquet --shard $JOB_COMPLETION_INDEX/8 --resume
  onward map all-MiniLM-L6-v2 rows.parquet --text title -o vectors.parquet
  producer | onward map model.onnx --bind x=a,b | consumer`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := session.Options(provider, threads, own)
			if err != nil {
				return err
			}
			for _, b := range binds {
				p, err := tables.ParseBinding(b)
				if err != nil {
					return cli.UsageError{Err: err}
				}
				job.Options.Bind = append(job.Options.Bind, p)
			}
			job.Options.OnError = tables.OnError(onError)
			if onError != "fail" && onError != "null" && onError != "skip" {
				return cli.Usagef("--on-error is %q, want fail, null or skip", onError)
			}
			if job.Options.Batch < 0 {
				return cli.Usagef("--batch is %d, want 0 or more", job.Options.Batch)
			}
			if job.From, err = tables.ParseFormat(from); err != nil {
				return cli.UsageError{Err: err}
			}
			if job.To, err = tables.ParseFormat(to); err != nil {
				return cli.UsageError{Err: err}
			}
			if job.Shard, job.Shards, err = parseShard(shard); err != nil {
				return err
			}
			if f := cmd.Flags(); f.Changed("keep") {
				job.Options.Keep = keep
			}
			if cmd.Flags().Changed("outputs") {
				job.Options.Outputs = outputs
			}
			if job.In = args[1:]; len(job.In) == 1 && job.In[0] == "-" {
				job.In = nil
			}
			if job.Out == "" && progress.IsTerminal(cmd.OutOrStdout()) && job.To != tables.CSV &&
				job.To != tables.JSONLines {
				return cli.Usagef("%s is binary and is not written to a terminal: name a file by -o OUT, "+
					"or choose --to csv or --to jsonl", cmp.Or(job.To, tables.ArrowStream))
			}
			if job.Resume && (len(job.In) == 0 || job.Out == "") {
				return cli.Usagef("--resume continues a file that is written from files: name IN and -o OUT")
			}
			if job.Shards > 1 && len(job.In) == 0 {
				return cli.Usagef("--shard selects a share of files: name IN")
			}
			opts.MapWeights, opts.Precision = mapWeights, precision
			folder.Session, folder.Task = opts, pipeline.Task(task)
			if job.Out != "" {
				if err := keepsModel(args[0], job.Out); err != nil {
					return err
				}
			}
			end, err := openMapped(cmd, &job, args[0], column, &folder)
			if err != nil {
				return err
			}
			defer end()
			job.Stdin, job.Stdout = cmd.InOrStdin(), cmd.OutOrStdout()
			job.Model = strings.Join(append([]string{job.Model, fmt.Sprint(precision)}, own...), " ")
			return runMap(cmd.Context(), &job, args[0], asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&column, "text", "text", "FOLDER: the column of texts")
	f.StringVar(&task, "task", "", "FOLDER: the task (default that of the folder)")
	f.StringVar(&folder.Query, "query", "", "FOLDER for text-ranking: the query")
	f.StringSliceVar(&folder.Labels, "labels", nil, "FOLDER for zero-shot-classification: the labels")
	f.StringVar(&folder.Variant, "variant", "", "FOLDER: the model file: fp16, int8, quantized, …, auto, or a path")
	f.StringVar(&folder.Embed.PromptName, "prompt", "", "FOLDER for vectors: the name of the prompt before each text")
	f.IntVar(&folder.Embed.Dimensions, "dimensions", 0, "FOLDER for vectors: keep the first numbers only")
	f.BoolVar(&folder.Embed.Normalize, "normalize", false, "FOLDER for vectors: divide by the length")
	f.StringVarP(&job.Out, "output", "o", "", "the file to write (default an Arrow stream to standard output)")
	f.StringArrayVar(&binds, "bind", nil, "columns of an input, INPUT=COLUMN,...; repeat for more")
	f.IntVar(&job.Options.Batch, "batch", 0, "rows per run (default 4096, fewer for large rows)")
	f.StringVar(&onError, "on-error", "fail", "what happens to rows that cannot be scored: fail, null or skip")
	f.StringVar(&job.Options.ErrorColumn, "error-column", tables.ErrorColumn,
		"the column with the reasons for null outputs")
	f.StringSliceVar(&keep, "keep", nil, "columns of IN to copy (default all)")
	f.StringSliceVar(&outputs, "outputs", nil, "outputs of the model to add (default all)")
	f.StringVar(&job.Options.Prefix, "prefix", "", "prefix of the columns of outputs")
	f.StringVar(&job.Options.Images, "images", "", "the folder of the image files that a string column names")
	f.StringVar(&from, "from", "",
		"format of IN: arrow-stream, arrow, parquet, csv or jsonl (default by the extension)")
	f.StringVar(&to, "to", "", "format of OUT, as for --from")
	f.StringVar(&shard, "shard", "", "share i/n of the input, from 0/n to n-1/n: files are split at row groups")
	f.BoolVar(&job.Resume, "resume", false, "continue an interrupted file, if there is one")
	session.ProviderFlag(f, &provider)
	session.OptionFlag(f, &own)
	session.ThreadsFlag(f, &threads)
	session.MapWeightsFlag(f, &mapWeights)
	session.PrecisionFlag(f, &precision)
	f.BoolVar(&asJSON, "json", false, "print the counts as JSON, to standard error if OUT is standard output")
	return c
}

// textBatch is the default number of rows per run of a model folder, which takes long for a text.
const textBatch = 256

// openMapped opens a model file or model folder for a job. The caller calls the function that it
// returns at the end.
func openMapped(cmd *cobra.Command, job *tables.Job, path, column string,
	o *tables.TextOptions) (func() error, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		for _, name := range []string{"text", "task", "query", "labels", "variant", "prompt", "dimensions",
			"normalize"} {
			if cmd.Flags().Changed(name) {
				return nil, cli.Usagef("--%s belongs to model folders, and %s is a file", name, path)
			}
		}
		sess, err := session.Open(cmd.Context(), path, o.Session)
		if err != nil {
			return nil, err
		}
		job.Session = sess
		job.Model, err = modelDigest(path)
		return sess.Close, err
	}
	m, err := tables.OpenText(cmd.Context(), path, o)
	if err != nil {
		return nil, err
	}
	job.Session = m
	job.Options.Bind = append(job.Options.Bind, tables.Binding{Input: "text", Columns: []string{column}})
	job.Options.Batch = cmp.Or(job.Options.Batch, textBatch)
	files, err := folderDigest(path)
	job.Model = fmt.Sprintf("%s %q %+v %q %q %s", files, o.Task, o.Embed, o.Query, o.Labels, o.Variant)
	return m.Close, err
}

// folderDigest returns the SHA-256 of the names, sizes and times of the files in a folder. Files in
// the caches of hubs are links, and the targets count.
func folderDigest(dir string) (string, error) {
	h := sha256.New()
	err := addFolder(h, dir, new([]fs.FileInfo))
	return hex.EncodeToString(h.Sum(nil)), err
}

// addFolder adds a folder unless seen has it: links may name one folder many times.
func addFolder(h hash.Hash, dir string, seen *[]fs.FileInfo) error {
	own, err := os.Stat(dir)
	if err != nil || slices.ContainsFunc(*seen, func(f fs.FileInfo) bool { return os.SameFile(f, own) }) {
		return err
	}
	*seen = append(*seen, own)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, failed := os.Stat(path)
		switch {
		case errors.Is(failed, fs.ErrNotExist): // a link to nothing
		case failed != nil:
			return failed
		case info.IsDir():
			err = errors.Join(err, addFolder(h, path, seen))
		default:
			addFile(h, path, info)
		}
	}
	return err
}

func addFile(h hash.Hash, path string, info fs.FileInfo) {
	fmt.Fprintf(h, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
}

// keepsModel fails if a job for out would replace a file of the model.
func keepsModel(model, out string) error {
	target := out
	if path, err := filepath.EvalSymlinks(out); err == nil {
		target = path
	}
	for _, path := range []string{target, target + ".partial", target + ".journal"} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		m, err := modelfile.Load(model)
		if err != nil {
			return nil // a folder, or an error of opening it
		}
		file := m.DataFile(path)
		m.Close()
		if modelfile.Same(path, model) || file != "" {
			return fmt.Errorf("%s is a file of the model %s, and would be replaced: choose another name", path, model)
		}
	}
	return nil
}

// runMap runs a job and prints the counts.
func runMap(ctx context.Context, job *tables.Job, model string, asJSON bool, stdout, stderr io.Writer) error {
	bar := progress.NewTimed(stderr, "map", "rows")
	job.Progress = func(p tables.Progress) { bar.Step(int(p.Rows), int(p.Total), "") }
	var rejected []tables.RowError
	job.Rejected = func(e tables.RowError) { rejected = append(rejected, e) }
	start := time.Now()
	counts, err := job.Run(ctx)
	bar.Finish()
	took := time.Since(start).Seconds()
	for i, e := range rejected {
		if i == tables.MaxRejected-1 && counts.Nulled+counts.Skipped > int64(len(rejected)) {
			fmt.Fprintf(stderr, "… and %d rows more\n", counts.Nulled+counts.Skipped-int64(i))
			break
		}
		fmt.Fprintln(stderr, text.Escape(e.Error()))
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted after %d rows", counts.Rows)
		}
		out := job.Out
		if target, e := filepath.EvalSymlinks(out); e == nil {
			out = target
		}
		if _, none := os.Stat(out + ".journal"); job.Out != "" && none == nil && counts.Rows > 0 {
			err = fmt.Errorf("%w; %s is not written, and --resume continues it", err, job.Out)
		}
		return err
	}
	w := stderr
	if job.Out != "" && asJSON {
		w = stdout
	}
	if asJSON {
		return text.JSON(w, mapJSON{model, counts, took})
	}
	line := fmt.Sprintf("%d rows: %d scored", counts.Rows, counts.Scored)
	if job.Options.OnError != tables.Skip {
		line += fmt.Sprintf(", %d null", counts.Nulled)
	} else {
		line += fmt.Sprintf(", %d skipped", counts.Skipped)
	}
	_, err = fmt.Fprintf(w, "%s in %.1f s, %.0f rows/s\n", line, took, float64(counts.Rows)/max(took, 1e-9))
	return err
}

// parseShard parses i/n.
func parseShard(s string) (i, n int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	a, b, ok := strings.Cut(s, "/")
	i, err = strconv.Atoi(a)
	if err == nil {
		n, err = strconv.Atoi(b)
	}
	if !ok || err != nil || n < 1 || i < 0 || i >= n {
		return 0, 0, cli.Usagef("--shard is %q, want i/n with i from 0 to n-1, such as 0/8", s)
	}
	return i, n, nil
}

// modelDigest returns the SHA-256 of a model file and of the names, sizes and times of its external
// data, or the name of an example.
func modelDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return path, nil // an example
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	m, err := modelfile.Load(path)
	if err != nil {
		return "", err
	}
	defer m.Close()
	for _, name := range m.DataFiles() {
		info, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		addFile(h, name, info)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
