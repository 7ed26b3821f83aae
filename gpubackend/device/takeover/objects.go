// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/checkpoint"
	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
)

// TakeObjects takes over the objects that the previous process held for programs, and lets them
// outlive this one. If they can't be used, that is logged, and there are none.
func (n *Notes) TakeObjects(e *exports.Exports, log *logrus.Entry) {
	if n == nil {
		return
	}
	state, err := n.objects.open(n.remains)
	files := map[int]int{}
	for slot := range exports.Slots {
		if fd, left := n.remains.Take(remains.Object(slot)); left {
			files[slot] = fd
		}
	}
	if err == nil && state != nil {
		err = e.TakeOver(state, files)
	} else {
		for _, fd := range files {
			handover.CloseFiles([]int{fd})
		}
	}
	if err != nil {
		log.WithError(err).Warn("what programs have exported is lost")
	}
	e.KeepIn(&n.objects)
}

// objects implement exports.Store.
type objects struct {
	remains *remains.Remains
	file    *checkpoint.File // nil: nothing is kept
}

// open returns the state of the previous process; nil: there was none.
func (o *objects) open(r *remains.Remains) (state []byte, err error) {
	o.remains = r
	if fd, left := r.Take(remains.Objects); left {
		if o.file, state, err = checkpoint.Open(fd); err == nil {
			return state, nil
		}
		handover.CloseFiles([]int{fd})
	}
	file, failed := checkpoint.Create(exports.MostState)
	if failed != nil {
		return nil, failed
	}
	o.file = file
	r.Keep(remains.Objects, file.FD())
	return nil, err
}

// Write implements exports.Store.
func (o *objects) Write(state []byte) {
	if o.file != nil && o.file.Write(state) != nil {
		_ = o.file.Close()
		o.file = nil
		o.remains.Drop(remains.Objects)
	}
}

// Keep implements exports.Store.
func (o *objects) Keep(slot, fd int) { o.remains.Keep(remains.Object(slot), fd) }

// Drop implements exports.Store.
func (o *objects) Drop(slot int) { o.remains.Drop(remains.Object(slot)) }

func (o *objects) close() {
	if o.file != nil {
		_ = o.file.Close()
		o.file = nil
	}
}
