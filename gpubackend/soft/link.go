// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// link is PTX texts that are made one. What comes out is PTX, too, which the load functions take.
type link struct {
	ctx   *gpuContext
	texts [][]byte
	image []byte
	log   buildLog
}

func (l *link) owner() *gpuContext { return l.ctx }

// Inputs of a link (CUjitInputType) that may hold PTX.
const (
	inputPTX    = 1
	inputFatbin = 2
	maxLinkLog  = 1 << 20
)

// LinkCreate implements gpubackend.Driver.
func (d *Device) LinkCreate(options []byte, infoBytes, errorBytes uint64) (gpubackend.Link, gpubackend.Result) {
	c, result := d.context()
	if result != gpubackend.Success {
		return 0, result
	}
	if !knownOptions(options) {
		return 0, gpubackend.InvalidValue
	}
	log := buildLog{info: make([]byte, min(infoBytes, maxLinkLog)), errors: make([]byte, min(errorBytes, maxLinkLog))}
	return gpubackend.Link(d.add(&link{ctx: c, log: log})), gpubackend.Success
}

// LinkAddData implements gpubackend.Driver.
func (d *Device) LinkAddData(h gpubackend.Link, kind uint64, data []byte, _ string, options []byte) gpubackend.Result {
	l, ok := find[*link](d, uint64(h))
	if !ok {
		return gpubackend.InvalidHandle
	}
	if !knownOptions(options) {
		return gpubackend.InvalidValue
	}
	if kind != inputPTX && kind != inputFatbin {
		return gpubackend.NotSupported
	}
	image, err := fatbin.Open(append(bytes.Clone(data), 0))
	if err != nil {
		l.log.errorf("%v\n", err)
		return gpubackend.InvalidImage
	}
	text, err := image.BestPTX(architecture)
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
func (d *Device) LinkComplete(h gpubackend.Link) (uint64, gpubackend.Result) {
	l, ok := find[*link](d, uint64(h))
	if !ok {
		return 0, gpubackend.InvalidHandle
	}
	if len(l.texts) == 0 {
		return 0, gpubackend.InvalidValue
	}
	var all bytes.Buffer
	for i, text := range l.texts {
		for line := range bytes.Lines(bytes.TrimRight(text, "\x00")) {
			if i == 0 || !startsWithHead(line) {
				all.Write(line)
			}
		}
		all.WriteByte('\n')
	}
	all.WriteByte(0)
	if _, _, result := build(all.Bytes(), nil, &l.log); result != gpubackend.Success {
		return 0, result
	}
	l.image = all.Bytes()
	return uint64(len(l.image)), gpubackend.Success
}

func startsWithHead(line []byte) bool {
	fields := bytes.Fields(line)
	for _, head := range heads {
		if len(fields) > 0 && bytes.Equal(fields[0], head) {
			return true
		}
	}
	return false
}

// LinkImage implements gpubackend.Driver.
func (d *Device) LinkImage(h gpubackend.Link, image []byte) gpubackend.Result {
	l, ok := find[*link](d, uint64(h))
	if !ok || l.image == nil || len(image) != len(l.image) {
		return gpubackend.InvalidValue
	}
	copy(image, l.image)
	return gpubackend.Success
}

// LinkLogs implements gpubackend.Driver.
func (d *Device) LinkLogs(h gpubackend.Link, infoLog, errorLog []byte) (infoUsed, errorUsed uint64, result gpubackend.Result) {
	l, ok := find[*link](d, uint64(h))
	if !ok {
		return 0, 0, gpubackend.InvalidHandle
	}
	return uint64(copy(infoLog, l.log.info[:l.log.infoUsed])), uint64(copy(errorLog, l.log.errors[:l.log.errorsUsed])),
		gpubackend.Success
}

// LinkDestroy implements gpubackend.Driver.
func (d *Device) LinkDestroy(h gpubackend.Link) gpubackend.Result {
	if _, ok := find[*link](d, uint64(h)); !ok {
		return gpubackend.InvalidHandle
	}
	delete(d.handles, uint64(h))
	return gpubackend.Success
}
