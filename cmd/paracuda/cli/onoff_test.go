// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"testing"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
)

func TestOnOff(t *testing.T) {
	for value, want := range map[string]string{"on": "on", "off": "off", "": "", "yes": ""} {
		var s cli.OnOff
		if err := s.Set(value); (err == nil) != (want != "") || err == nil && s.String() != want {
			t.Errorf("%q: %v, %v", value, s.String(), err)
		}
	}
}
