// Package soundcodec decodes WAV, FLAC and MP3 files.
//
// Files are untrusted input. Before samples are allocated, decoders call a function grow with their
// number, and now and then with 0; its error ends decoding.
package soundcodec

// MaxBytes is the most bytes of a file.
const MaxBytes = 1 << 30

// Sound holds samples between -1 and 1.
type Sound struct {
	Rate     int         // samples per second
	Channels [][]float32 // all of one length
}

// Format returns the format of a file by its first four bytes: wav, flac or mp3, or "" for others.
func Format(head []byte) string {
	switch {
	case len(head) < 4:
	case string(head[:4]) == "RIFF":
		return "wav"
	case string(head[:4]) == "fLaC":
		return "flac"
	case string(head[:3]) == "ID3" || head[0] == 0xff && head[1]&0xe0 == 0xe0:
		return "mp3"
	}
	return ""
}
