package serve

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	inflateCost = 48 << 10   // bytes of what decompresses a body
	deflateCost = 1152 << 10 // bytes of what compresses a response
)

// body reads the body of a request within the limit, decompressed. Its memory is reserved as it
// arrives, so that a Content-Length alone reserves nothing. The deadline of the request's context,
// if it has one, ends the reading.
func (s *Server) body(w http.ResponseWriter, r *http.Request, memory *reservation) (data []byte, err error) {
	limit := s.opts.MaxBody
	if r.ContentLength > limit {
		return nil, errorf(TooLarge, "the body has %d bytes, more than the limit of %d", r.ContentLength, limit)
	}
	if end, ok := r.Context().Deadline(); ok {
		c := http.NewResponseController(w)
		defer func() {
			if err == nil { // else the server may wait for the rest of the body
				c.SetReadDeadline(time.Time{})
			}
		}()
		if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.ReadTimeout > 0 {
			if t := time.Now().Add(srv.ReadTimeout); t.Before(end) {
				end = t
			}
		}
		c.SetReadDeadline(end) // fails for connections of tests, which do not wait
	}
	if p, ok := w.(*patientWriter); ok {
		w = p.ResponseWriter // MaxBytesReader tells it to close the connection
	}
	var in io.Reader = http.MaxBytesReader(w, r.Body, limit)
	var rest *bufio.Reader // of a stream that can end before the body
	enc := strings.ToLower(r.Header.Get("Content-Encoding"))
	if enc != "" && enc != "identity" {
		if err := memory.grow(inflateCost); err != nil {
			return nil, err
		}
	}
	switch enc {
	case "", "identity":
	case "gzip":
		in, err = gzip.NewReader(in)
	case "deflate":
		rest = bufio.NewReader(in)
		in, err = zlib.NewReader(rest)
	default:
		return nil, errorf(UnsupportedMedia, "Content-Encoding %.32q is not supported, want gzip or deflate", enc)
	}
	if err == nil {
		data, err = readReserved(io.LimitReader(in, limit+1), r.ContentLength, memory)
	}
	if err == nil && rest != nil && int64(len(data)) <= limit {
		if _, more := rest.Peek(1); more != io.EOF {
			err = cmp.Or(more, errors.New("bytes follow the compressed data"))
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, new(*Error)):
		return nil, err
	case errors.As(err, &tooLarge) || int64(len(data)) > limit:
		return nil, errorf(TooLarge, "the body has more than %d bytes, the limit", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errorf(DeadlineExceeded, "the body did not arrive in time")
	case err != nil && r.Context().Err() != nil:
		return nil, classify(r.Context().Err())
	case err != nil:
		return nil, errorf(InvalidArgument, "the body cannot be read: %w", err)
	}
	return data, nil
}

// readReserved reads everything. It reserves a buffer before it allocates it; size is the
// likely size, or negative.
func readReserved(in io.Reader, size int64, memory *reservation) ([]byte, error) {
	const first = 16 << 10
	n := int64(first)
	if size >= 0 {
		n = min(n, size+1) // with room to find the end
	}
	if err := memory.grow(n); err != nil {
		return nil, err
	}
	data := make([]byte, 0, n)
	for {
		k, err := in.Read(data[len(data):cap(data)])
		data = data[:len(data)+k]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return data, err
		}
		if len(data) < cap(data) {
			continue
		}
		n := 2 * int64(cap(data))
		if size >= int64(len(data)) {
			n = min(n, size+1)
		}
		if err := memory.grow(n); err != nil {
			return nil, err
		}
		old := int64(cap(data))
		data = append(make([]byte, 0, n), data...)
		memory.shrink(old)
	}
}

// readJSON reads the body of a request, which is one JSON value or empty.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request, memory *reservation,
	read func(j *jsonReader) error) error {
	data, err := s.body(w, r, memory)
	if err != nil || len(data) == 0 {
		return err
	}
	return invalid(readJSON(r.Context(), data, memory, read))
}
