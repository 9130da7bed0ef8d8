package main

import "testing"

// TestNextNamesTheDirectory: the commands that follow reach the lab that was started.
func TestNextNamesTheDirectory(t *testing.T) {
	t.Parallel()
	for dir, at := range map[string]string{"/x/usual": "", "/x/other": " DIR=/x/other", "other": " DIR=other"} {
		want := "a first run, in make lab-shell" + at + ":\n  cd /x/try\n  export DISAGG_SITE=$PWD/site.yaml\n  ./disagg submit recipe.yaml --wait\n" +
			"make lab-down" + at + " takes the cluster down\n"
		if got := next(dir, "/x/usual", "/x/try"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", dir, got, want)
		}
	}
}
