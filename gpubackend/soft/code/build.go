// SPDX-License-Identifier: Apache-2.0

package code

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// The newest PTX that the advertised driver takes.
const isaMajor, isaMinor = 9, 0

// lastOption is the last CUjit_option that CUDA 13 knows.
const lastOption = cudaabi.JITOverrideDirectiveValues

// buildLog is where the driver's JIT compiler would write: two buffers that the caller gave,
// perhaps empty.
type buildLog struct {
	info, errors         []byte
	infoUsed, errorsUsed uint64
}

// write appends a line and its NUL to a buffer as far as there is room, and returns how much of it
// is in use.
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

// build makes a program of an image. It also returns the module, of which other programs can be
// made, and the account of the host's memory that both take, for the caller to give back.
func (x *Code) build(
	image, options []byte, log *buildLog,
) (*ptx.Module, *decoded.Program, *budget.Account, gpubackend.Result) {
	mem := x.options.Host.Open()
	module, program, result := build(image, options, log, mem)
	if result == gpubackend.OutOfMemory {
		log.errorf("ptxas fatal   : Memory allocation failure\n")
	}
	if result != gpubackend.Success {
		mem.Close()
		return nil, nil, nil, result
	}
	return module, program, mem, gpubackend.Success
}

func build(
	image, options []byte, log *buildLog, mem *budget.Account,
) (*ptx.Module, *decoded.Program, gpubackend.Result) {
	if !knownOptions(options) {
		return nil, nil, gpubackend.InvalidValue
	}
	module, result := parse(image, log, mem)
	if result != gpubackend.Success {
		return nil, nil, result
	}
	program, result := load(module, log, mem)
	if result == gpubackend.Success {
		log.report(program)
	}
	return module, program, result
}

// parse reads the best PTX of an image.
func parse(image []byte, log *buildLog, mem *budget.Account) (*ptx.Module, gpubackend.Result) {
	opened, err := fatbin.Open(image)
	if err != nil {
		log.errorf("%v\n", err)
		return nil, gpubackend.InvalidImage
	}
	unpacked := mem.Sibling()
	defer unpacked.Close()
	text, err := opened.BestPTX(chip.Architecture, unpacked)
	switch {
	case errors.Is(err, budget.ErrExceeded):
		return nil, gpubackend.OutOfMemory
	case errors.Is(err, fatbin.ErrNoBinary):
		log.errorf("%v\n", err)
		return nil, gpubackend.NoBinaryForGPU
	case err != nil:
		log.errorf("%v\n", err)
		return nil, gpubackend.InvalidImage
	}
	if tooNew(text) {
		log.errorf("ptxas fatal   : Unsupported .version; current version is '%d.%d'\n", isaMajor,
			isaMinor)
		return nil, gpubackend.UnsupportedPTXVersion
	}
	module, err := ptx.Parse(text, mem)
	if err != nil {
		return nil, log.refused(err)
	}
	return module, gpubackend.Success
}

// entryBytes is what a kernel's objects count for: its function, and the library's.
var entryBytes = uint64(reflect.TypeFor[Function]().Size()+reflect.TypeFor[kernelObject]().Size()) +
	400

func load(
	module *ptx.Module, log *buildLog, mem *budget.Account,
) (*decoded.Program, gpubackend.Result) {
	program, err := decoded.Load(module, mem)
	if err == nil {
		err = mem.Take(uint64(len(program.Kernels())) * entryBytes)
	}
	if err != nil {
		return nil, log.refused(err)
	}
	return program, gpubackend.Success
}

// refused is the result of an error of parsing or loading, which it logs.
func (l *buildLog) refused(err error) gpubackend.Result {
	if errors.Is(err, budget.ErrExceeded) {
		return gpubackend.OutOfMemory
	}
	l.refuse(err)
	return gpubackend.InvalidPTX
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
func (l *buildLog) report(program *decoded.Program) {
	if len(l.info) == 0 {
		return
	}
	for _, k := range program.Kernels() {
		l.infof("ptxas info    : Compiling entry function '%s' for 'sm_%d'\n", k.Name,
			chip.Architecture)
		l.infof("ptxas info    : Used %d registers, %d bytes smem, %d bytes cmem[0], "+
			"%d bytes lmem\n", chip.Registers(k), k.StaticShared, k.ParamSize, k.LocalSize)
	}
}

// knownOptions checks the ids of JIT options, pairs of words (id, value). None of them changes a
// program's results.
func knownOptions(options []byte) bool {
	for ; len(options) >= 16; options = options[16:] {
		if id := binary.LittleEndian.Uint64(options); id > lastOption {
			return false
		}
	}
	return len(options) == 0
}

// tooNew tells whether PTX text asks for a newer version of PTX than there is.
func tooNew(text []byte) bool {
	for line := range bytes.Lines(text) {
		version, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(".version"))
		if !ok {
			continue
		}
		version = bytes.TrimSpace(version)
		if end := bytes.IndexAny(version, " \t"); end >= 0 {
			version = version[:end]
		}
		if len(version) == 0 {
			continue
		}
		major, minor, _ := bytes.Cut(version, []byte("."))
		a, err := strconv.Atoi(string(major))
		b, err2 := strconv.Atoi(string(minor))
		return err == nil && err2 == nil && (a > isaMajor || a == isaMajor && b > isaMinor)
	}
	return false
}
