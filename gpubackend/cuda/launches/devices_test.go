// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
)

// TestLaunchDevices: the driver gets no list that it can't have, and no parameters that aren't the
// function's, of which it would read too many.
func TestLaunchDevices(t *testing.T) {
	for name, test := range map[string]struct {
		list []gpubackend.Launch
		want gpubackend.Result
	}{
		"two":                {batch(2), gpubackend.Success},
		"as many as may be":  {batch(command.MaxLaunchDevices), gpubackend.Success},
		"none":               {nil, gpubackend.InvalidValue},
		"too many":           {batch(command.MaxLaunchDevices + 1), gpubackend.InvalidValue},
		"without parameters": {[]gpubackend.Launch{{Function: 7}}, gpubackend.InvalidValue},
		"too many parameters": {
			[]gpubackend.Launch{{Parameters: make([]byte, 16)}}, gpubackend.InvalidValue,
		},
		"with attributes": {
			[]gpubackend.Launch{{Parameters: make([]byte, 12), Attributes: make([]byte, 72)}},
			gpubackend.InvalidValue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			if r := newLaunches(f, nil).LaunchDevices(test.list, 0); r != test.want {
				t.Fatalf("result %d, want %d", r, test.want)
			}
			launched := 0
			if test.want == gpubackend.Success {
				launched = len(test.list)
			}
			if f.together != launched || f.offsets != launched {
				t.Errorf("the driver got %d launches, and parameters of %d", f.together, f.offsets)
			}
		})
	}
}
