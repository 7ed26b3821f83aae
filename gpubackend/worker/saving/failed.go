// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// failed is the error with which the program has failed, or Success: the one that it was told, or,
// if all of its contexts have failed, that of one of them, which its next call would be told.
func (s *Saving) failed() (all gpubackend.Result) {
	if r := s.Told(); r != gpubackend.Success {
		return r
	}
	for context := range s.Objects.All(object.Context) {
		if all = s.query(context); !all.Sticky() {
			return gpubackend.Success
		}
	}
	return all
}

// query says whether a context has work, or has failed.
func (s *Saving) query(context uint64) gpubackend.Result {
	if r := s.Contexts.Set(context, true); r != gpubackend.Success {
		return r
	}
	switch r := s.Driver.ContextQuery(); r {
	case gpubackend.InvalidContext, gpubackend.ContextIsDestroyed:
		return gpubackend.Success // a primary one that nobody retains
	default:
		return r
	}
}

// empty are the sections that a program that has failed has nothing in.
var empty = [...]string{savedvm.ObjectsName, savedvm.JournalName, savedvm.LayoutName,
	savedvm.SameName, savedvm.MemoryName}

// saveFailed writes a program that has failed.
func (s *Saving) saveFailed(to io.Writer, why gpubackend.Result, rest savedvm.Rest) error {
	x := s.stateOfGuest()
	x.Failed, x.Ahead = why, rest == savedvm.Ahead
	text, err := x.Encode()
	if err != nil {
		return err
	}
	list := []section{whole(savedvm.StateName, text)}
	for _, name := range empty {
		list = append(list, whole(name, nil))
	}
	return s.write(to, list)
}

// restoreFailed takes up a program that has failed.
func (s *Saving) restoreFailed(r *record.Reader, x *saved.State) error {
	if !x.Failed.Sticky() {
		return fmt.Errorf("%w: no context fails with %v", saved.ErrRecord, x.Failed)
	}
	for _, name := range empty {
		if _, err := savedvm.Next(r, name, 0); err != nil {
			return err
		}
	}
	s.Fail(x.Failed)
	return nil
}
