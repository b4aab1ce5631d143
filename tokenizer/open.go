package tokenizer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Open reads a tokenizer from a folder as Hugging Face has it, or from one file:
// tokenizer.json, a SentencePiece model (*.model), vocab.txt, vocab.json with merges.txt
// beside it, or *.tiktoken. In a folder, tokenizer_config.json, special_tokens_map.json and
// added_tokens.json are read too. What is not supported is an error that names it.
func Open(path string, opts *Options) (*Tokenizer, error) {
	t, err := open(path, opts)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", path, err)
	}
	return t, nil
}

func open(path string, opts *Options) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	name := ""
	if !info.IsDir() {
		path, name = filepath.Split(path)
		if path == "" {
			path = "."
		}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return OpenFS(nonblocking{root.FS().(fs.StatFS), root}, name, opts)
}

// nonblocking is the file system of a folder where Open does not wait for the other end of a pipe,
// which another process may have put there.
type nonblocking struct {
	fs.StatFS
	root *os.Root
}

// Open implements fs.FS.
func (n nonblocking) Open(name string) (fs.File, error) {
	return n.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
}

// OpenFS reads a tokenizer from a file system: from the file name, or from the files of a
// folder if name is "".
func OpenFS(folder fs.FS, name string, opts *Options) (*Tokenizer, error) {
	loadTables()
	if opts == nil {
		opts = &Options{}
	}
	f := &files{fs: folder, limit: opts.maxFile(), folder: name == "", opening: &opening{reserve: opts.ReserveOpening}}
	t, err := f.open(name, opts)
	if err == nil {
		err = f.opening.end()
	}
	if f.opening.err != nil { // the cause of others
		err = fmt.Errorf("opening the tokenizer: %w", f.opening.err)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (f *files) open(name string, opts *Options) (*Tokenizer, error) {
	if f.folder {
		var err error
		if name, err = f.find(); err != nil {
			return nil, err
		}
	}
	if f.folder {
		if err := f.readConfig(); err != nil {
			return nil, err
		}
	}
	p := &parts{added: newAddedTokens(f.opening)}
	err := f.load(p, name, opts)
	if err == nil {
		err = f.opening.err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if opts.Lowercase {
		list := normalizerSequence{lowercaseNormalizer{}}
		if p.normalizer != nil {
			list = append(list, p.normalizer)
		}
		p.normalizer = list
	}
	if f.folder {
		if err := f.override(p); err != nil {
			return nil, err
		}
	}
	if err := p.added.index(); err != nil {
		return nil, err
	}
	p.config = f.config
	p.readRaw(f.opening)
	return (&Tokenizer{parts: p}).WithOptions(opts)
}

// files reads the files of a tokenizer.
type files struct {
	fs     fs.FS
	limit  int64
	folder bool
	config Config
	raw    map[string]any // tokenizer_config.json

	opening *opening
}

// find returns the file of a folder that holds the vocabulary.
func (f *files) find() (string, error) {
	names := []string{"tokenizer.json"}
	list, err := fs.ReadDir(f.fs, ".")
	if err != nil {
		return "", err
	}
	have := map[string]bool{}
	for _, e := range list {
		have[e.Name()] = true
		switch n := e.Name(); filepath.Ext(n) {
		case ".model", ".spm", ".tiktoken":
			names = append(names, n)
		}
	}
	names = append(names, "vocab.json", "vocab.txt")
	for _, n := range names {
		if have[n] && (n != "vocab.json" || have["merges.txt"]) {
			return n, nil
		}
	}
	return "", errors.New("no tokenizer.json, *.model, *.tiktoken, vocab.json with merges.txt, or vocab.txt")
}

// read returns the contents of a file.
func (f *files) read(name string) (string, error) {
	check := func(info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is not a regular file", name)
		case info.Size() > f.limit:
			return fmt.Errorf("%s has %d bytes, beyond the limit of %d", name, info.Size(), f.limit)
		}
		return nil
	}
	// Opening a named pipe may wait for a writer, and opening a device may act on it.
	if err := check(fs.Stat(f.fs, name)); err != nil {
		return "", err
	}
	file, err := f.fs.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err = check(info, err); err != nil { // it may have been replaced
		return "", err
	}
	// Texts of the tokenizer refer to that of the file. Decoding base64 and binary parts copies it.
	if size := int(info.Size()); !f.opening.keep(size) || !f.opening.take(size) {
		return "", f.opening.err
	}
	var b strings.Builder
	b.Grow(int(info.Size()))
	n, err := io.Copy(&b, io.LimitReader(file, f.limit+1))
	if err != nil {
		return "", err
	}
	if n > f.limit {
		return "", fmt.Errorf("%s exceeds the limit of %d bytes", name, f.limit)
	}
	return b.String(), nil
}

// load fills p from the file with the vocabulary.
func (f *files) load(p *parts, name string, opts *Options) error {
	data, err := f.read(name)
	if err != nil {
		return err
	}
	switch {
	case strings.HasSuffix(name, ".tiktoken"):
		return f.loadTiktoken(p, name, data, opts)
	case strings.HasSuffix(name, ".model"), strings.HasSuffix(name, ".spm"):
		return f.loadSentencePiece(p, []byte(data))
	case strings.HasSuffix(name, ".txt"):
		return f.loadVocabText(p, data)
	case strings.HasSuffix(name, "vocab.json"):
		return f.loadVocabMerges(p, name, data)
	case strings.HasSuffix(name, ".json"):
		return f.loadTokenizerJSON(p, data, opts)
	}
	return errors.New("the name of the file does not tell its format")
}

// loadTokenizerJSON reads a tokenizer.json.
func (f *files) loadTokenizerJSON(p *parts, data string, opts *Options) error {
	if !utf8.ValidString(data) {
		return errors.New("the file is not valid UTF-8")
	}
	top, m, err := (&jsonReader{s: data, opening: f.opening}).tokenizerFile()
	if err != nil {
		return err
	}
	if v, ok := top["version"]; ok && v != "1.0" {
		return fmt.Errorf("version %v is not supported", v)
	}
	n, regexes := 0, 0
	for _, name := range []string{"normalizer", "pre_tokenizer", "post_processor", "decoder"} {
		countComponents(top[name], &n, &regexes)
	}
	if n > maxComponents {
		return fmt.Errorf("the file has %d components, want at most %d", n, maxComponents)
	}
	if !f.opening.keep(min(regexes, n) * regexMemory) {
		return f.opening.err
	}
	if p.model, err = parseModel(m, f.opening); err != nil {
		return err
	}
	if p.normalizer, err = parseNormalizer(top["normalizer"], 0); err != nil {
		return err
	}
	if opts.SentencePieceRules {
		useSentencePieceRules(p.normalizer)
	}
	if p.pre, err = parsePreTokenizer(top["pre_tokenizer"], 0); err != nil {
		return err
	}
	if p.post, err = parsePostProcessor(top["post_processor"], 0); err != nil {
		return err
	}
	if !f.opening.keep(templateBytes(p.post)) {
		return f.opening.err
	}
	if p.decoder, err = parseDecoder(top["decoder"], 0); err != nil {
		return err
	}
	if p.fileTruncation, err = parseTruncation(top["truncation"]); err != nil {
		return err
	}
	if p.filePadding, err = parsePadding(top["padding"]); err != nil {
		return err
	}
	return p.addTokens(top["added_tokens"])
}

// useSentencePieceRules sets the option of each normalizer Precompiled.
func useSentencePieceRules(n normalizer) {
	switch n := n.(type) {
	case *precompiled:
		n.sentencePiece = true
	case normalizerSequence:
		for _, m := range n {
			useSentencePieceRules(m)
		}
	}
}

// addTokens adds the tokens of a list in order.
func (p *parts) addTokens(v any) error {
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return errors.New("added_tokens must be an array")
	}
	next := p.nextID()
	for i, v := range list {
		fields, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("added token %d must be an object", i)
		}
		o := &object{fields: fields}
		t := AddedToken{
			Content: o.string("content"), SingleWord: o.bool("single_word"), LStrip: o.bool("lstrip"),
			RStrip:     o.bool("rstrip"),
			Normalized: o.bool("normalized"), Special: o.bool("special"),
		}
		o.int("id")
		if o.err != nil {
			return fmt.Errorf("added token %d: %w", i, o.err)
		}
		if err := p.added.add(t, p.model, p.normalizer, &next); err != nil {
			return fmt.Errorf("added token %d: %w", i, err)
		}
	}
	return nil
}

// nextID returns the id of the next added token that the model does not know.
func (p *parts) nextID() int32 {
	next := int32(p.model.size())
	for id := range p.added.byID {
		next = max(next, id+1)
	}
	return next
}

// readRaw lets a BPE model read bytes, if the pre-tokenizer would write them as characters.
func (p *parts) readRaw(o *opening) {
	b, ok := p.model.(*bpe)
	if !ok || b.raw {
		return
	}
	last := p.pre
	for {
		list, ok := last.(preTokenizerSequence)
		if !ok || len(list) == 0 {
			break
		}
		last = list[len(list)-1]
	}
	if level, ok := last.(*byteLevelSplit); ok {
		level.raw = b.setRaw(o)
	}
}

func parseTruncation(v any) (*Truncation, error) {
	if v == nil {
		return nil, nil
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("truncation must be an object")
	}
	o := &object{fields: fields}
	t := &Truncation{MaxLength: o.int("max_length"), Strategy: o.string("strategy"), Stride: o.int("stride")}
	left, err := direction(o, true)
	if err == nil {
		err = o.err
	}
	t.Left = left
	if err != nil {
		return nil, fmt.Errorf("truncation: %w", err)
	}
	return t, t.check()
}

func direction(o *object, optional bool) (left bool, err error) {
	if optional && !o.has("direction") {
		return false, nil
	}
	switch d := o.string("direction"); d {
	case "Left":
		return true, nil
	case "Right":
		return false, nil
	default:
		return false, fmt.Errorf("direction %q is not supported", d)
	}
}

func parsePadding(v any) (*Padding, error) {
	if v == nil {
		return nil, nil
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("padding must be an object")
	}
	o := &object{fields: fields}
	p := &Padding{ID: o.int("pad_id"), TypeID: o.int("pad_type_id"), Token: o.string("pad_token")}
	switch s := fields["strategy"].(type) {
	case string:
		if s != "BatchLongest" {
			return nil, fmt.Errorf("padding strategy %q is not supported", s)
		}
	case map[string]any:
		p.Length = (&object{fields: s}).int("Fixed")
		if p.Length == 0 {
			return nil, errors.New("padding strategy must be BatchLongest or a positive Fixed length")
		}
	default:
		return nil, errors.New("padding strategy must be BatchLongest or a positive Fixed length")
	}
	if o.has("pad_to_multiple_of") {
		p.MultipleOf = o.int("pad_to_multiple_of")
	}
	left, err := direction(o, false)
	if err == nil {
		err = o.err
	}
	if err != nil {
		return nil, fmt.Errorf("padding: %w", err)
	}
	p.Left = left
	return p, p.check()
}

// maxComponents limits the normalizers, pre-tokenizers, post-processors and decoders of a file.
// Each may hold a compiled regular expression, and each reads all of a text.
const maxComponents = 256

// countComponents counts the components in a tree, and their regular expressions.
func countComponents(v any, n, regexes *int) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			countComponents(e, n, regexes)
		}
	case map[string]any:
		if v["type"] != nil {
			*n++
		}
		if v["Regex"] != nil {
			*regexes++
		}
		for _, e := range v {
			countComponents(e, n, regexes)
		}
	}
}
