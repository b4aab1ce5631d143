// Command transcribe writes down what WAV, FLAC and MP3 files say, by a model folder such as
// wav2vec 2.0. With Silero's voice detector, it transcribes each segment of speech by itself, with
// the time at which it begins.
//
//	go run ./examples/transcribe wav2vec2-base-960h speech.flac
//	go run ./examples/transcribe -voice silero_vad.onnx wav2vec2-base-960h meeting.wav
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/onward-ml/onward/pipeline"
	"github.com/onward-ml/onward/preprocess"
)

func main() {
	voice := flag.String("voice", "", "file of a voice detector that finds segments of speech")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("want a model folder and sound files")
	}
	if err := transcribe(context.Background(), os.Stdout, *voice, flag.Arg(0), flag.Args()[1:]); err != nil {
		log.Fatal(err)
	}
}

// transcribe writes the text of each file.
func transcribe(ctx context.Context, w io.Writer, voice, folder string, files []string) error {
	r, err := pipeline.OpenSpeechRecognizer(ctx, folder, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	var detector *pipeline.VoiceDetector
	if voice != "" {
		if detector, err = pipeline.OpenVoiceDetector(ctx, voice, nil); err != nil {
			return err
		}
		defer detector.Close()
	}
	for _, file := range files {
		samples, err := read(file, r.Rate())
		if err != nil {
			return err
		}
		segments := []pipeline.Segment{{Start: 0, End: len(samples)}}
		if detector != nil {
			if segments, err = detector.Detect(ctx, samples, r.Rate()); err != nil {
				return err
			}
		}
		for _, s := range segments {
			text, err := r.Transcribe(ctx, samples[s.Start:s.End], r.Rate())
			if err != nil {
				return err
			}
			at := time.Duration(s.Start) * time.Second / time.Duration(r.Rate())
			fmt.Fprintf(w, "%s %v  %s\n", file, at.Round(10*time.Millisecond), text)
		}
	}
	return nil
}

// read returns the samples of a file at a rate, the mean of its channels.
func read(file string, rate int) ([]float32, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := preprocess.ReadSound(f)
	if err != nil {
		return nil, err
	}
	return preprocess.Resample(s.Mono(), s.Rate, rate, preprocess.Resampling{})
}
