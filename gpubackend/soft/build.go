// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/simt"
)

// The newest PTX that the advertised driver takes.
const isaMajor, isaMinor = 9, 0

// lastOption is the last CUjit_option that CUDA 13 knows.
const lastOption = 33

// buildLog is where the driver's JIT compiler would write: two buffers that the caller gave, perhaps empty.
type buildLog struct {
	info, errors         []byte
	infoUsed, errorsUsed uint64
}

// write appends a line and its NUL to a buffer as far as there is room, and returns what is in use of it.
func write(buffer []byte, used uint64, format string, args ...any) uint64 {
	if len(buffer) == 0 {
		return 0
	}
	start := max(used, 1) - 1 // over the NUL
	room := buffer[start : len(buffer)-1]
	n := copy(room, fmt.Sprintf(format, args...))
	room = buffer[start:]
	room[n] = 0
	return start + uint64(n) + 1
}

func (l *buildLog) infof(format string, args ...any) {
	l.infoUsed = write(l.info, l.infoUsed, format, args...)
}

func (l *buildLog) errorf(format string, args ...any) {
	l.errorsUsed = write(l.errors, l.errorsUsed, format, args...)
}

// build makes a program of an image. The module goes with it, to make another program of.
func build(image, options []byte, log *buildLog) (*ptx.Module, *simt.Program, gpubackend.Result) {
	if !knownOptions(options) {
		return nil, nil, gpubackend.InvalidValue
	}
	opened, err := fatbin.Open(image)
	if err != nil {
		log.errorf("%v\n", err)
		return nil, nil, gpubackend.InvalidImage
	}
	text, err := opened.BestPTX(architecture)
	switch {
	case errors.Is(err, fatbin.ErrNoBinary):
		log.errorf("%v\n", err)
		return nil, nil, gpubackend.NoBinaryForGPU
	case err != nil:
		log.errorf("%v\n", err)
		return nil, nil, gpubackend.InvalidImage
	}
	if tooNew(text) {
		log.errorf("ptxas fatal   : Unsupported .version; current version is '%d.%d'\n", isaMajor, isaMinor)
		return nil, nil, gpubackend.UnsupportedPTX
	}
	module, err := ptx.Parse(text)
	if err != nil {
		log.refuse(err)
		return nil, nil, gpubackend.InvalidPTX
	}
	program, result := load(module, log)
	if result == gpubackend.Success {
		log.report(program)
	}
	return module, program, result
}

func load(module *ptx.Module, log *buildLog) (*simt.Program, gpubackend.Result) {
	program, err := simt.Load(module)
	if err != nil {
		log.refuse(err)
		return nil, gpubackend.InvalidPTX
	}
	return program, gpubackend.Success
}

// refuse logs an error of the compiler in the form that ptxas gives it.
func (l *buildLog) refuse(err error) {
	var at *ptx.Error
	if errors.As(err, &at) {
		l.errorf("ptxas application ptx input, line %d; error   : %s\n", at.Line, at.Msg)
	} else {
		l.errorf("ptxas error   : %v\n", err)
	}
	l.errorf("ptxas fatal   : Ptx assembly aborted due to errors\n")
}

// report logs what was compiled.
func (l *buildLog) report(program *simt.Program) {
	if len(l.info) == 0 {
		return
	}
	for _, k := range program.Kernels() {
		l.infof("ptxas info    : Compiling entry function '%s' for 'sm_%d'\n", k.Name, architecture)
		l.infof("ptxas info    : Used %d registers, %d bytes smem, %d bytes cmem[0], %d bytes lmem\n",
			registers(k), k.StaticShared, k.ParamSize, k.LocalSize)
	}
}

// knownOptions checks the ids of JIT options, pairs of words (id, value). None of them changes a program's results.
func knownOptions(options []byte) bool {
	for ; len(options) >= 16; options = options[16:] {
		if id := word(options); id > lastOption {
			return false
		}
	}
	return len(options) == 0
}

// tooNew tells whether PTX text asks for a newer version of PTX than there is.
func tooNew(text []byte) bool {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 2 || string(fields[0]) != ".version" {
			continue
		}
		major, minor, _ := bytes.Cut(fields[1], []byte("."))
		a, err := strconv.Atoi(string(major))
		b, err2 := strconv.Atoi(string(minor))
		return err == nil && err2 == nil && (a > isaMajor || a == isaMajor && b > isaMinor)
	}
	return false
}
