// SPDX-License-Identifier: Apache-2.0

package code

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
)

// linker joins PTX texts into one, which the load functions take.
type linker struct {
	Context *contexts.Context
	texts   [][]byte
	image   []byte
	log     buildLog
	// The host's memory that logs and texts take, and that the image takes.
	memory, whole *budget.Account
}

// Owner implements contexts.Owned.
func (l *linker) Owner() *contexts.Context { return l.Context }

func (l *linker) close() {
	l.memory.Close()
	l.whole.Close()
}

// Inputs of a link (CUjitInputType) that may hold PTX.
const (
	maxLinkLog = cudaabi.MaxLogBytes
	// textBytes is what a text counts for beside its bytes.
	textBytes = 64
)

// LinkCreate implements gpubackend.Driver.
func (x *Code) LinkCreate(
	options []byte, infoBytes, errorBytes uint64,
) (gpubackend.Link, gpubackend.Result) {
	c, result := x.options.Contexts.Current()
	if result != gpubackend.Success {
		return 0, result
	}
	if !knownOptions(options) {
		return 0, gpubackend.InvalidValue
	}
	infoBytes, errorBytes = min(infoBytes, maxLinkLog), min(errorBytes, maxLinkLog)
	memory := x.options.Host.Open()
	if memory.Take(infoBytes+errorBytes) != nil {
		return 0, gpubackend.OutOfMemory
	}
	log := buildLog{info: make([]byte, infoBytes), errors: make([]byte, errorBytes)}
	l := &linker{Context: c, log: log, memory: memory, whole: memory.Sibling()}
	return gpubackend.Link(x.options.Handles.Add(l)), gpubackend.Success
}

// LinkAddData implements gpubackend.Driver.
func (x *Code) LinkAddData(
	h gpubackend.Link, kind uint64, data []byte, _ string, options []byte,
) gpubackend.Result {
	l, ok := handles.Find[*linker](x.options.Handles, uint64(h))
	if !ok {
		return gpubackend.InvalidHandle
	}
	if !knownOptions(options) {
		return gpubackend.InvalidValue
	}
	if kind != cudaabi.JITInputPTX && kind != cudaabi.JITInputFatbinary {
		return gpubackend.NotSupported
	}
	// unpacked counts the copy with its final NUL and what is unpacked of it, until we return.
	unpacked := l.memory.Sibling()
	defer unpacked.Close()
	if unpacked.Take(uint64(len(data))+1) != nil {
		return gpubackend.OutOfMemory
	}
	image, err := fatbin.Open(append(bytes.Clone(data), 0))
	if err != nil {
		l.log.errorf("%v\n", err)
		return gpubackend.InvalidImage
	}
	text, err := image.BestPTX(chip.Architecture, unpacked)
	if unpacked.Refused() || err == nil && l.memory.Take(uint64(len(text))+textBytes) != nil {
		return gpubackend.OutOfMemory
	}
	if err != nil {
		l.log.errorf("%v\n", err)
		return gpubackend.NoBinaryForGPU
	}
	l.texts = append(l.texts, bytes.Clone(text))
	return gpubackend.Success
}

// heads are the directives that a module has once.
var heads = [][]byte{[]byte(".version"), []byte(".target"), []byte(".address_size")}

// LinkComplete implements gpubackend.Driver.
func (x *Code) LinkComplete(h gpubackend.Link) (uint64, gpubackend.Result) {
	l, ok := handles.Find[*linker](x.options.Handles, uint64(h))
	if !ok {
		return 0, gpubackend.InvalidHandle
	}
	if len(l.texts) == 0 {
		return 0, gpubackend.InvalidValue
	}
	l.image = nil
	l.whole.Close()
	size := 1
	for _, text := range l.texts {
		size += len(text) + 1
	}
	if l.whole.Take(uint64(size)) != nil {
		return 0, gpubackend.OutOfMemory
	}
	var all bytes.Buffer
	all.Grow(size)
	for i, text := range l.texts {
		for line := range bytes.Lines(bytes.TrimRight(text, "\x00")) {
			if i == 0 || !startsWithHead(line) {
				all.Write(line)
			}
		}
		all.WriteByte('\n')
	}
	all.WriteByte(0)
	_, _, memory, result := x.build(all.Bytes(), nil, &l.log)
	if result != gpubackend.Success {
		l.whole.Close()
		return 0, result
	}
	memory.Close()
	l.image = all.Bytes()
	return uint64(len(l.image)), gpubackend.Success
}

func startsWithHead(line []byte) bool {
	line = bytes.TrimSpace(line)
	for _, head := range heads {
		if rest, ok := bytes.CutPrefix(line, head); ok &&
			(len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t') {
			return true
		}
	}
	return false
}

// LinkImage implements gpubackend.Driver.
func (x *Code) LinkImage(h gpubackend.Link, image []byte) gpubackend.Result {
	l, ok := handles.Find[*linker](x.options.Handles, uint64(h))
	if !ok || l.image == nil || len(image) != len(l.image) {
		return gpubackend.InvalidValue
	}
	copy(image, l.image)
	return gpubackend.Success
}

// LinkLogs implements gpubackend.Driver.
func (x *Code) LinkLogs(
	h gpubackend.Link, infoLog, errorLog []byte,
) (infoUsed, errorUsed uint64, result gpubackend.Result) {
	l, ok := handles.Find[*linker](x.options.Handles, uint64(h))
	if !ok {
		return 0, 0, gpubackend.InvalidHandle
	}
	return uint64(copy(infoLog, l.log.info[:l.log.infoUsed])),
		uint64(copy(errorLog, l.log.errors[:l.log.errorsUsed])),
		gpubackend.Success
}

// LinkDestroy implements gpubackend.Driver.
func (x *Code) LinkDestroy(h gpubackend.Link) gpubackend.Result {
	l, ok := handles.Find[*linker](x.options.Handles, uint64(h))
	if !ok {
		return gpubackend.InvalidHandle
	}
	l.close()
	x.options.Handles.Remove(uint64(h))
	return gpubackend.Success
}
