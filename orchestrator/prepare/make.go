package prepare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/disagg/disagg/orchestrator"
	"github.com/disagg/disagg/orchestrator/rundir"
	"github.com/disagg/disagg/slurm/render"
)

// Script writes the batch script of a run that will live in dir. The token
// marks the job as this run's.
func (p *Prepared) Script(dir, token string) ([]byte, error) {
	s, err := render.Script(p.Plan.Slurm, render.ScriptView{Tool: p.Plan.Tool, RunDir: dir, PlanHash: p.Hash, Token: token})
	if err != nil {
		return nil, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("render job.slurm: %w", err))
	}
	return s, nil
}

// RunDir makes the run's directory whole: plan, secrets, binary and, when the
// run goes through sbatch, the batch script. Nothing has been submitted when it
// fails, and nothing is left of it then.
func (p *Prepared) RunDir(now time.Time, withScript bool) (_ *rundir.Dir, err error) {
	if !filepath.IsAbs(p.Site.RunsDir) {
		return nil, orchestrator.WithCode(orchestrator.ExitConfig, fmt.Errorf("make run directory: runs_dir %q of the site is not absolute", p.Site.RunsDir))
	}
	dir, err := rundir.Create(p.Site.RunsDir, p.Plan.Name, now)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dir.Discard())
		}
	}()
	if err := dir.WritePlan(p.JSON); err != nil {
		return nil, err
	}
	if err := dir.WriteSecrets(p.Secrets); err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	if err := dir.InstallBinary(exe); err != nil {
		return nil, err
	}
	if withScript {
		script, err := p.Script(dir.Path(), dir.ID())
		if err != nil {
			return nil, err
		}
		if err := dir.Put(rundir.ScriptFile, script, 0o600); err != nil {
			return nil, err
		}
	}
	if err := dir.Seal(); err != nil {
		return nil, err
	}
	return dir, nil
}
