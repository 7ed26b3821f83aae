// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// sharingDriver has events that are known by a text, and no file.
type sharingDriver struct {
	fakeDriver
	opened []gpubackend.SharedEvent
}

func (d *sharingDriver) ShareEvent(
	e gpubackend.Event,
) (s gpubackend.SharedEvent, fd int, result gpubackend.Result) {
	s[0], s[63] = byte(e), 99
	return s, -1, gpubackend.Success
}

func (d *sharingDriver) OpenEvent(
	s gpubackend.SharedEvent, _ int,
) (gpubackend.Event, gpubackend.Result) {
	d.opened = append(d.opened, s)
	return 7, gpubackend.Success
}

func (d *sharingDriver) EventDestroy(gpubackend.Event) gpubackend.Result {
	return gpubackend.Success
}

func sharingRig(t *testing.T) (*rig, *sharingDriver) {
	t.Helper()
	r, d := newRig(t), &sharingDriver{}
	r.use(d)
	r.withQueue(t) // random names may look like maps, which are looked up there
	return r, d
}

func TestEventsAreOpenedByName(t *testing.T) {
	one, _ := sharingRig(t)
	other, d := sharingRig(t)
	e := one.want(t, 0, gpubackend.OpEventCreate, 6)
	low := one.want(t, 0, gpubackend.OpIpcGetEventHandle, e)
	high := one.slot().Word[1]
	if again := one.want(t, 0, gpubackend.OpIpcGetEventHandle, e); again != low {
		t.Error("an event has two names")
	}
	one.want(t, gpubackend.InvalidContext, gpubackend.OpIpcOpenEventHandle, low, high)
	other.want(t, gpubackend.InvalidHandle, gpubackend.OpIpcOpenEventHandle, low, high+1)
	same := other.want(t, 0, gpubackend.OpIpcOpenEventHandle, low, high)
	other.want(t, 0, gpubackend.OpEventQuery, same)
	if n := other.sharing.Handles(); n != 1 || !other.sharing.Opened(same) {
		t.Errorf("%d events of others are known, and another process's is open", n)
	}
	if len(d.opened) != 1 || d.opened[0][0] != 1 || d.opened[0][63] != 99 {
		t.Errorf("opened %v", d.opened)
	}
	one.want(t, 0, gpubackend.OpEventDestroy, e)
	other.want(t, gpubackend.InvalidHandle, gpubackend.OpIpcOpenEventHandle, low, high)
	one.want(t, gpubackend.InvalidHandle, gpubackend.OpIpcGetEventHandle, e)
	other.want(t, 0, gpubackend.OpEventDestroy, same)
	if a, b := one.sharing.Save(), other.sharing.Save(); len(a.Events)+len(b.Opened) != 0 {
		t.Errorf("%+v and %+v are shared, and both are gone", a, b)
	}
}
