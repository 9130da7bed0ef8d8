# The lab by hand: make lab-up NODES=4, then make lab-shell or NODE=node2. DIR
# names another one's directory, in all three.
.PHONY: lab-up lab-down lab-shell
LAB = $(GO) run ./internal/lab/cmd/lab
LAB_AT = $(if $(DIR),-dir $(DIR))

lab-up: NODES ?= 4
lab-up: build ## a Slurm cluster on this machine, with a first run to try: NODES=4
	@./internal/lab/setup.sh
	@$(LAB) up $(LAB_AT) -nodes $(NODES) -disagg bin/disagg

lab-down: ## take it down whole
	@$(LAB) down $(LAB_AT)

lab-shell: ## a shell in it, on the controller or on NODE=node2
	@$(LAB) shell $(LAB_AT) $(NODE)
