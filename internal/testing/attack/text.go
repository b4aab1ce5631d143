package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
	"github.com/onward-ml/onward/onnx"
)

// tokenizers are files of the tokenizer's tests. Each is served with a model for every id.
var tokenizers = []string{"bert", "clip", "llama2", "llama3", "roberta", "unigram", "words"}

// textPaths lists the endpoints for texts: their paths, and the calls of gRPC.
var textPaths = []string{"/embed", "/embed_all", "/v1/embeddings", "/tokenize", "/decode", "/similarity",
	"/embed_sparse", "/predict", "/rerank", "/v1/rerank", "/v2/models/", "/v2/models/ensemble",
	"/tei.v1.Embed/Embed", "/tei.v1.Embed/EmbedStream", "/tei.v1.Embed/EmbedAllStream", "/tei.v1.Embed/EmbedSparse",
	"/tei.v1.Tokenize/Tokenize", "/tei.v1.Tokenize/TokenizeStream", "/tei.v1.Tokenize/Decode",
	"/tei.v1.Predict/Predict", "/tei.v1.Predict/PredictPairStream", "/tei.v1.Rerank/Rerank",
	"/tei.v1.Rerank/RerankStream",
	"/inference.GRPCInferenceService/ModelInfer", "/inference.GRPCInferenceService/ModelStreamInfer"}

func textTargets(*attack) []string { return textPaths }

// textRepository writes a repository with model folders and an ensemble.
func (a *attack) textRepository(dir string) error {
	if err := repository(dir); err != nil {
		return err
	}
	for _, task := range []string{"embedder", "sparse", "reranker", "classifier"} {
		if err := modelfolder.Write(filepath.Join(dir, task), task); err != nil {
			return err
		}
	}
	b := onnx.NewModel("ids").Opset("", 21)
	b.Input("input_ids", onnx.Int64, "n", "s").Input("attention_mask", onnx.Int64, "n", "s")
	b.Initializer("axis", []int64{2}, 1).Initializer("scale", []float32{1, 2, 3, 4}, 4)
	b.Node("Cast", []string{"input_ids"}, []string{"numbers"}, onnx.Attrs{"to": int64(onnx.Float)})
	b.Node("Unsqueeze", []string{"numbers", "axis"}, []string{"column"})
	b.Node("Mul", []string{"column", "scale"}, []string{"last_hidden_state"})
	b.Output("last_hidden_state", onnx.Float, "n", "s", 4)
	m, err := b.Model()
	if err != nil {
		return err
	}
	for _, name := range tokenizers {
		folder := filepath.Join(dir, name)
		text, err := os.ReadFile(filepath.Join(a.root, "tokenizer/testdata/small", name+".json"))
		if err := errors.Join(err, modelfolder.Write(folder, "embedder"), os.Remove(filepath.Join(folder, "vocab.txt")),
			os.WriteFile(filepath.Join(folder, "tokenizer_config.json"), []byte("{}"), 0o666),
			os.WriteFile(filepath.Join(folder, "tokenizer.json"), text, 0o666),
			onnx.WriteFile(filepath.Join(folder, "onnx/model.onnx"), m, nil)); err != nil {
			return err
		}
	}
	ensemble := filepath.Join(dir, "ensemble")
	return errors.Join(os.Mkdir(ensemble, 0o777), os.WriteFile(filepath.Join(ensemble, "config.pbtxt"),
		[]byte(`platform: "ensemble" input { name: "text" } output { name: "label" } ensemble_scheduling { step {
		model_name: "classifier" input_map { key: "text" value: "text" } output_map { key: "label" value: "label" } } }`),
		0o666))
}

// texting returns a server with models for texts.
func (a *attack) texting() (*server, error) {
	if a.servers[2] == nil {
		repo, err := os.MkdirTemp(a.scratch, "texts")
		if err != nil {
			return nil, err
		}
		if err := a.textRepository(repo); err != nil {
			return nil, err
		}
		if a.servers[2], err = a.serve(repo, true); err != nil {
			return nil, err
		}
	}
	return a.servers[2], nil
}

// textUnits are what hostile texts repeat.
var textUnits = []string{"a", "!", " ", "a ", "\n", "7", "'", `\"`, "\uFDFA", "e\u0301", "\u0301\u0323\u0327", "각", "İ",
	"中", "😀", "▁", "\x01", "\xff", "\xf0\x9f", "the quick brown fox ", "<s></s>[MASK][CLS]<|endoftext|>", `\ud800`}

// hostileTexts returns texts of about n bytes in all.
func hostileTexts(r *rand.Rand, n int) []string {
	unit := textUnits[r.IntN(len(textUnits))]
	switch count := 1 << r.IntN(12); r.IntN(4) {
	case 0: // equal ones
		return slices.Repeat([]string{strings.Repeat(unit, max(1, n/len(unit)/count))}, count)
	case 1: // tiny ones
		return slices.Repeat([]string{unit}, n/(len(unit)+2))
	case 2: // mixed
		var b strings.Builder
		for b.Len() < n {
			unit := textUnits[r.IntN(len(textUnits))]
			b.WriteString(strings.Repeat(unit, 1+r.IntN(1<<r.IntN(12))))
		}
		return []string{b.String()}
	}
	return []string{strings.Repeat(unit, n/len(unit))}
}

// jsonTexts returns an array of texts as they are: invalid UTF-8 and escapes remain.
func jsonTexts(texts []string) string {
	replaced := strings.NewReplacer("\n", `\n`, "\x01", `\u0001`)
	return `["` + replaced.Replace(strings.Join(texts, `","`)) + `"]`
}

// textRequest returns the path, body and headers of a request to an endpoint with about n bytes of
// texts.
func textRequest(r *rand.Rand, target string, n int) (path string, body []byte, headers map[string]string) {
	texts := hostileTexts(r, n)
	model := append([]string{"embedder"}, tokenizers...)[r.IntN(1+len(tokenizers))]
	headers = map[string]string{"Content-Type": "application/json"}
	if strings.HasPrefix(target, "/tei") || strings.HasPrefix(target, "/inference") {
		headers = map[string]string{"Content-Type": "application/grpc", "TE": "trailers"}
		switch {
		case strings.Contains(target, "Rerank"):
			model = "reranker"
		case strings.Contains(target, "Predict"):
			model = "classifier"
		case strings.Contains(target, "Sparse"):
			model = "sparse"
		}
		headers["model"] = model
		if r.IntN(4) == 0 {
			return target, framed(nil, requestFlood(r, target[strings.LastIndex(target, "/")+1:], n), false), headers
		}
		return target, textMessages(r, target, model, texts), headers
	}
	ids := func() string {
		return "[" + strings.Repeat(fmt.Sprint(r.IntN(200), ","), n/4) + "1]"
	}
	list, truncate := jsonTexts(texts), r.IntN(2) == 0
	switch target {
	case "/decode":
		if body = []byte(`{"ids":` + ids() + `}`); r.IntN(2) == 0 {
			body = []byte(`{"ids":[` + strings.Repeat(`[1,2],`, min(2000, n)) + ids() + `]}`)
		}
	case "/similarity":
		body = fmt.Appendf(nil, `{"inputs":{"source_sentence":%s,"sentences":%s}}`,
			jsonTexts(texts[:1])[1:len(texts[0])+3], list)
		if n := bytes.LastIndex(body, []byte(`],`)); n >= 0 {
			body = body[:n]
		}
	case "/rerank", "/v1/rerank":
		query := jsonTexts(texts[:1])
		model, body = "reranker", fmt.Appendf(nil, `{"query":%s,"%s":%s}`, query[1:len(query)-1],
			map[string]string{"/rerank": "texts", "/v1/rerank": "documents"}[target], list)
	case "/predict":
		list = strings.ReplaceAll(list, `","`, `"],["`)
		model, body = "classifier", fmt.Appendf(nil, `{"inputs":[%s],"truncate":%v}`, list, truncate)
	case "/embed_sparse":
		model, body = "sparse", fmt.Appendf(nil, `{"inputs":%s,"truncate":%v}`, list, truncate)
	case "/tokenize":
		body = fmt.Appendf(nil, `{"inputs":%s}`, list)
	case "/v2/models/", "/v2/models/ensemble":
		if target != "/v2/models/" {
			model = "ensemble"
		}
		return "/v2/models/" + model + "/infer", fmt.Appendf(nil,
			`{"inputs":[{"name":"text","shape":[%d],"datatype":"BYTES","data":%s}]}`, len(texts), list), headers
	case "/v1/embeddings":
		if r.IntN(4) == 0 {
			list = ids()
		}
		return target, fmt.Appendf(nil, `{"model":%q,"input":%s}`, model, list), headers
	default:
		body = fmt.Appendf(nil, `{"inputs":%s,"truncate":%v}`, list, truncate)
	}
	if target == "/v1/rerank" {
		return target, body, headers
	}
	return "/models/" + model + target, body, headers
}

// textMessages returns the messages of a call of gRPC with their prefixes.
func textMessages(r *rand.Rand, method, model string, texts []string) (body []byte) {
	add := func(b []byte, n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
	}
	send := func(m []byte) {
		body = framed(body, m, false)
	}
	switch {
	case strings.HasSuffix(method, "/Decode"):
		var ids []byte
		for range len(strings.Join(texts, "")) {
			ids = protowire.AppendVarint(ids, uint64(r.IntN(200)))
		}
		send(add(nil, 1, string(ids)))
	case strings.HasSuffix(method, "Infer"):
		var raw []byte
		for _, t := range texts {
			raw = append(binary.LittleEndian.AppendUint32(raw, uint32(len(t))), t...)
		}
		shape := string(protowire.AppendVarint(nil, uint64(len(texts))))
		m := add(nil, 1, []string{model, "ensemble"}[r.IntN(2)])
		send(add(add(m, 5, string(add(add(add(nil, 1, "text"), 2, "BYTES"), 3, shape))), 7, string(raw)))
	case strings.HasSuffix(method, "/Rerank"):
		m := add(nil, 1, texts[0])
		for _, t := range texts {
			m = add(m, 2, t)
		}
		send(m)
	default:
		for _, t := range texts {
			m := add(nil, 1, t)
			if strings.Contains(method, "Rerank") || strings.Contains(method, "Pair") {
				m = add(m, map[bool]protowire.Number{true: 1, false: 2}[strings.Contains(method, "Pair")], t)
			}
			if strings.Contains(method, "Tokenize") || !strings.Contains(method, "Rerank") {
				m = protowire.AppendVarint(protowire.AppendTag(m, 2, protowire.VarintType), 1) // truncate
			}
			if send(m); !strings.HasSuffix(method, "Stream") {
				break
			}
		}
	}
	return body
}

// known is a text with its answer.
var known = map[string]string{
	"/models/embedder/embed":     `{"inputs":["a cat","a cat"],"dimensions":1}` + "\n" + `[[1],[1]]`,
	"/models/embedder/tokenize":  `{"inputs":["cat"],"add_special_tokens":false}` + "\n" + `[[{"id":8,"text":"cat","special":false,"start":0,"stop":3}]]`,
	"/models/embedder/decode":    `{"ids":[2,5,8,3,0]}` + "\n" + `["a cat"]`,
	"/models/classifier/predict": `{"inputs":"good","raw_scores":true}` + "\n" + `[{"score":2,"label":"POSITIVE"},{"score":-2,"label":"NEGATIVE"}]`,
	"/models/reranker/predict":   `{"inputs":["a cat","a cat sits"],"raw_scores":true}` + "\n" + `[{"score":2,"label":"LABEL_0"}]`,
}

// askKnown sends each known text. A busy server may refuse it.
func askKnown(s *server, c *http.Client, busy bool) error {
	for path, k := range known {
		body, want, _ := strings.Cut(k, "\n")
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		code, text, err := send(ctx, c, "http://"+s.http+path, strings.NewReader(body), nil)
		late := ctx.Err() != nil
		cancel()
		switch {
		case err != nil && busy && !late: // there is no memory for the connection
		case err != nil:
			return fmt.Errorf("%s: a known text is not answered: %w", path, err)
		case busy && (code == 429 || code == 503):
		case code != 200 || text != want:
			return fmt.Errorf("%s: a known text gets %d %.300s, want %s", path, code, text, want)
		}
	}
	return nil
}

// slowBody is read in pieces with pauses, and ends with its client.
type slowBody struct {
	*bytes.Reader
	pause time.Duration
}

func (b slowBody) Read(p []byte) (int, error) {
	time.Sleep(b.pause)
	return b.Reader.Read(p[:min(len(p), 1<<16)])
}

// tryText sends hostile texts to an endpoint: to the end from up to four clients, of which some
// read slowly, while another one asks for known texts, and then from one that leaves. The server
// keeps its memory, and ends its work soon after the client has left.
func tryText(a *attack, target string, seed uint64) (*attempt, error) {
	r := rand.New(rand.NewPCG(seed, hash(target)))
	s, err := a.texting()
	if err != nil {
		return nil, err
	}
	pid := s.cmd.Process.Pid
	resetPeak(pid)
	path, body, headers := textRequest(r, target, 1<<(8+r.IntN(13)))
	base, grpc := "http://"+s.http, headers["TE"] != ""
	if grpc {
		base = "http://" + s.grpc
	}
	var wait sync.WaitGroup
	start, clients, done := time.Now(), 1+r.IntN(4), make(chan struct{})
	codes, took := make([]string, clients), make([]time.Duration, clients)
	var errs [2]error
	for i := range clients {
		slow := r.IntN(4) == 0
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			took[i] = time.Minute
			c := s.client(grpc)
			defer c.CloseIdleConnections()
			q, _ := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
			for k, v := range headers {
				q.Header.Set(k, v)
			}
			w, err := c.Do(q)
			if err == nil {
				codes[i] = fmt.Sprint(w.StatusCode)
				took[i] = time.Since(start)
				if slow {
					time.Sleep(300 * time.Millisecond)
				}
				_, err = io.Copy(io.Discard, w.Body)
				w.Body.Close()
				codes[i] += w.Header.Get("grpc-status") + w.Trailer.Get("grpc-status")
			}
			if ctx.Err() != nil {
				errs[0] = fmt.Errorf("no answer within a minute: %w", err)
			}
		})
	}
	other := make(chan error, 1)
	go func() {
		c := s.client(false)
		defer c.CloseIdleConnections()
		for {
			if err := askKnown(s, c, true); err != nil {
				other <- err
				return
			}
			select {
			case <-done:
				other <- nil
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	wait.Wait()
	close(done)
	errs[1] = <-other
	after := time.Duration(r.Int64N(int64(min(slices.Min(took), time.Second)) + 1))
	late := s.leave(r, base+path, body, headers, after)
	// A request may wait until the garbage of others is collected, in two collections, which can
	// take more than 100 ms of a slow processor. What it does itself takes as long when it is
	// repeated.
	for n := 0; n < 2 && late > *longest; n++ {
		late = min(late, s.leave(r, base+path, body, headers, after))
	}
	if *verbose {
		const ms = time.Millisecond
		fmt.Printf("%s %s: %d × %d bytes %q, %v, %v, peak %d MiB; client leaves after %v, %v late\n", path,
			headers["model"], clients, len(body), body[len(body)-min(30, len(body)):], codes,
			time.Since(start).Round(ms), peak(pid)>>20, after.Round(ms), late.Round(ms))
	}
	if err = errors.Join(errs[:]...); err == nil {
		c := s.client(false)
		defer c.CloseIdleConnections()
		for end := time.Now().Add(patience()); ; time.Sleep(20 * time.Millisecond) {
			if err = askKnown(s, c, false); err == nil || time.Now().After(end) {
				break
			}
		}
	}
	if e := s.check(); err == nil && e != nil {
		a.forget(s)
		err = e
	}
	if err == nil && late > *longest {
		err = fmt.Errorf("the server works for %v after its client has left", late)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %d × %d bytes: %w", path, clients, len(body), err)
	}
	return &attempt{}, nil
}

// leave sends a request whose client leaves, or whose deadline passes, after the given time. It
// returns the processor time of the server after that.
func (s *server) leave(r *rand.Rand, url string, body []byte, headers map[string]string,
	after time.Duration) (late time.Duration) {
	pid := s.cmd.Process.Pid
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	c := s.client(headers["TE"] != "")
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, slowBody{bytes.NewReader(body),
		time.Duration(r.IntN(2)*r.IntN(1000)) * time.Microsecond})
	if err != nil {
		return 0
	}
	q.ContentLength = int64(len(body))
	for k, v := range headers {
		q.Header.Set(k, v)
	}
	if headers["TE"] != "" && r.IntN(2) == 0 {
		q.Header.Set("grpc-timeout", fmt.Sprint(after.Microseconds(), "u"))
	}
	if w, err := c.Do(q); err == nil {
		_, _ = io.Copy(io.Discard, w.Body)
		w.Body.Close()
	}
	c.CloseIdleConnections()
	<-ctx.Done()
	begin := processTime(pid)
	for before, end := begin, time.Now().Add(5*time.Second); time.Now().Before(end); {
		time.Sleep(60 * time.Millisecond)
		now := processTime(pid)
		if late = now - begin; now-before < 3*time.Millisecond {
			break
		}
		before = now
	}
	return late
}
