// Command imageservice is an HTTP service that reads handwritten digits. Requests that arrive while
// a run is in progress are answered by the next run together (micro-batching).
//
//	go run ./examples/imageservice &
//	curl --data-binary @digit.png localhost:8080/classify
//	{"digit":7,"probability":0.998}
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/png"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/datasets"
	"github.com/onward-ml/onward/tensor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080")); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, addr string) error {
	c, err := newClassifier(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	mux := http.NewServeMux()
	mux.Handle("POST /classify", c)
	srv := &http.Server{Addr: addr, Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { srv.Shutdown(context.Background()) }) // finishes requests in progress
	log.Println("listening on", addr)
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const (
	side     = 8   // images have side×side pixels
	maxBatch = 32  // images of one run
	maxBody  = 1e6 // bytes of one request
)

// A classifier collects images into batches and runs the model on them.
type classifier struct {
	session *onward.Session
	queue   chan request
	done    chan struct{}
}

type request struct {
	ctx    context.Context
	pixels []float32
	answer chan answer // has room for one answer, so that the batch never waits for a client
}

type answer struct {
	Digit       int64   `json:"digit"`
	Probability float32 `json:"probability"`
	err         error
}

func newClassifier(ctx context.Context) (*classifier, error) {
	model, err := datasets.Get("digits.onnx")
	if err != nil {
		return nil, err
	}
	// A model from outside should have a limit on its memory, too.
	s, err := onward.OpenBytes(ctx, model, &onward.SessionOptions{Limits: onward.Limits{MaxMemory: 256 << 20}})
	if err != nil {
		return nil, err
	}
	c := &classifier{session: s, queue: make(chan request, maxBatch), done: make(chan struct{})}
	go c.run()
	return c, nil
}

// close stops the classifier. No request may be in progress.
func (c *classifier) close() error {
	close(c.queue)
	<-c.done
	return c.session.Close()
}

// run answers batches until the queue is closed. A batch is what has arrived since the last run.
func (c *classifier) run() {
	defer close(c.done)
	for first := range c.queue {
		batch := []request{first}
		for more := true; more && len(batch) < maxBatch; {
			select {
			case r, ok := <-c.queue:
				if more = ok; ok {
					batch = append(batch, r)
				}
			default:
				more = false
			}
		}
		c.answer(batch)
	}
}

func (c *classifier) answer(batch []request) {
	live := batch[:0]
	for _, r := range batch {
		if r.ctx.Err() == nil { // the client is still there
			live = append(live, r)
		}
	}
	if len(live) == 0 {
		return
	}
	answers, err := c.classify(live)
	for i, r := range live {
		if err != nil {
			r.answer <- answer{err: err}
			continue
		}
		r.answer <- answers[i]
	}
}

func (c *classifier) classify(batch []request) ([]answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	pixels := make([]float32, 0, len(batch)*side*side)
	for _, r := range batch {
		pixels = append(pixels, r.pixels...)
	}
	x, err := tensor.New(pixels, len(batch), 1, side, side)
	if err != nil {
		return nil, err
	}
	out, err := c.session.Run(ctx, onward.Values{"image": x}, nil)
	if err != nil {
		return nil, err
	}
	digits, err := tensor.Data[int64](out["digit"])
	if err != nil {
		return nil, err
	}
	p, err := tensor.Data[float32](out["probabilities"])
	if err != nil {
		return nil, err
	}
	answers := make([]answer, len(batch))
	for i, d := range digits {
		answers[i] = answer{Digit: d, Probability: p[i*10+int(d)]}
	}
	return answers, nil
}

func (c *classifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pixels, err := decode(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req := request{ctx: r.Context(), pixels: pixels, answer: make(chan answer, 1)}
	select {
	case c.queue <- req:
	case <-r.Context().Done():
		return
	}
	select {
	case a := <-req.answer:
		if a.err != nil {
			http.Error(w, a.err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(a)
	case <-r.Context().Done():
	}
}

// decode reads an image and returns its pixels, 0 for black to 1 for white.
func decode(r io.Reader) ([]float32, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	cfg, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if cfg.Width != side || cfg.Height != side { // before decoding: a small file can hold a huge image
		return nil, fmt.Errorf("the image has %d×%d pixels, want %d×%d", cfg.Width, cfg.Height, side, side)
	}
	m, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	pixels := make([]float32, 0, side*side)
	for y := range side {
		for x := range side {
			p := m.Bounds().Min.Add(image.Pt(x, y))
			pixels = append(pixels, float32(color.GrayModel.Convert(m.At(p.X, p.Y)).(color.Gray).Y)/255)
		}
	}
	return pixels, nil
}
