;;; Uses FX Lens from a batch Emacs with eglot as a person would, and writes what was seen as JSON.  -*- lexical-binding: t -*-

(require 'json)
(require 'package)
(package-initialize)
(require 'eglot)
(require 'flymake)

(defvar fxlens-python (getenv "FXLENS_PYTHON"))
(defvar fxlens-seen nil)

(defun fxlens-wait (what probe)
  "Wait until PROBE returns non-nil; WHAT names it in the error."
  (let ((deadline (+ (float-time) 90)) value)
    (while (and (not (setq value (funcall probe))) (< (float-time) deadline))
      (accept-process-output nil 0.1))
    (or value (error "Waited in vain for %s" what))))

(defun fxlens-problems ()
  "The diagnostics of the buffer, as flymake has them."
  (flymake-start)
  (flymake-diagnostics))

(setq eglot-autoshutdown t
      eglot-sync-connect 60
      eglot-connect-timeout 60
      eglot-confirm-server-initiated-edits nil
      eglot-workspace-configuration `((fxlens . ((python . ,fxlens-python)))))
(setq-default eglot-workspace-configuration eglot-workspace-configuration)
(add-to-list 'eglot-server-programs `(python-mode . (,fxlens-python "-m" "fxlens" "serve")))

(find-file (getenv "FXLENS_FILE"))
(python-mode)
(apply #'eglot (eglot--guess-contact))
(fxlens-wait "the server" #'eglot-current-server)

;; What is read at once is there before the trace, which says more.
(defun fxlens-traced ()
  "The diagnostics of the buffer once the trace has said why."
  (let ((found (fxlens-problems)))
    (and found (string-match-p "tracing cannot choose" (flymake-diagnostic-text (car found))) found)))

(let* ((problems (fxlens-wait "a diagnostic" #'fxlens-traced))
       (first (car problems)))
  (push (cons 'text (substring-no-properties (flymake-diagnostic-text first))) fxlens-seen)
  (push (cons 'range (buffer-substring-no-properties (flymake-diagnostic-beg first) (flymake-diagnostic-end first))) fxlens-seen)
  (goto-char (1+ (flymake-diagnostic-beg first)))
  (let ((hover (fxlens-wait "hover" (lambda () (jsonrpc-request (eglot-current-server) :textDocument/hover
                                                                (eglot--TextDocumentPositionParams))))))
    (push (cons 'hover (plist-get (plist-get hover :contents) :value)) fxlens-seen))
  (let ((actions (eglot-code-actions (flymake-diagnostic-beg first) (flymake-diagnostic-end first) "quickfix")))
    (push (cons 'actions (vconcat (mapcar (lambda (each) (plist-get each :title)) actions))) fxlens-seen)
    (eglot--apply-workspace-edit (plist-get (elt actions 0) :edit)))
  ;; Edits are sent when Emacs is idle, which a batch Emacs never is.
  (eglot--signal-textDocument/didChange)
  (fxlens-wait "the end of the problem" (lambda () (null (fxlens-problems))))
  (push (cons 'buffer (buffer-substring-no-properties (point-min) (point-max))) fxlens-seen))

(with-temp-file (getenv "FXLENS_OUT") (insert (json-encode fxlens-seen)))
(set-buffer-modified-p nil)
(kill-emacs 0)
